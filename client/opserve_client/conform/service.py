"""The service that computes expected values for a run: a given one, or one that is started."""

import json
from collections.abc import Collection, Generator, Mapping
from contextlib import ExitStack, contextmanager

from opserve_client.cli_connection import ConnectionOptions
from opserve_client.conform.targets.named import NO_CREDENTIALS, Access
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.errors import OpserveError
from opserve_client.private_service import private_service

REFERENCE = "reference"


@contextmanager
def service(
    address: str, profiles: Collection[str] | None, connection: ConnectionOptions = NO_CREDENTIALS
) -> Generator[Access]:
    """Yields the access to a service with a device of the profile `reference`.

    Args:
        address: Address of a service; "" starts one on free ports of the loopback, until the block
            ends.
        profiles: Profiles of the other devices of the started service; None means all.
        connection: API key and certificates for the given service.

    Raises:
        InfrastructureError: The service does not start.
    """
    if address:
        yield Access(address=address, connection=connection)
        return
    settings: dict[str, str] = {}
    if profiles is not None:
        settings["devices"] = json.dumps([REFERENCE, *sorted(set(profiles) - {REFERENCE})])
    with ExitStack() as stack:
        try:
            addresses = stack.enter_context(private_service(**settings))
        except (OSError, RuntimeError) as error:
            raise InfrastructureError(str(error)) from error
        yield Access(address=addresses.grpc)


def contracts_of(access: Access) -> Mapping[str, str]:
    """Returns the revision of each operator's contract at a service, by operator.

    Raises:
        InfrastructureError: The service does not answer.
    """
    try:
        with access.client() as client:
            return {one.name: str(one.revision) for one in client.list_operators()}
    except OpserveError as error:
        raise InfrastructureError(f"{access.address}: {error}") from error
