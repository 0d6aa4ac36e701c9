"""The service that a run asks for expected values: a given one, or one of its own."""

import json
from collections.abc import Collection, Generator, Mapping
from contextlib import ExitStack, contextmanager

from opserve_client.cli_connection import Ways
from opserve_client.conform.targets.named import PLAIN, Access
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.errors import OpserveError
from opserve_client.private_service import private_service

REFERENCE = "reference"


@contextmanager
def service(
    address: str, profiles: Collection[str] | None, ways: Ways = PLAIN
) -> Generator[Access]:
    """How a service is reached that has a device of `reference`.

    Args:
        address: Of a service; "" starts one on free ports of the loopback, until the block ends.
        profiles: That the one that is started has devices of besides; None means all.
        ways: The key and the files for TLS, of a service that is given.

    Raises:
        InfrastructureError: It does not start.
    """
    if address:
        yield Access(address=address, ways=ways)
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
    """Revision of each operator's contract there, by operator.

    Raises:
        InfrastructureError: The service does not answer.
    """
    try:
        with access.client() as client:
            return {one.name: str(one.revision) for one in client.list_operators()}
    except OpserveError as error:
        raise InfrastructureError(f"{access.address}: {error}") from error
