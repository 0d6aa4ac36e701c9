"""Targets by what a command line calls them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opserve_client._sync.client import Client
from opserve_client.cli_connection import Ways, client_at
from opserve_client.conform.targets.command import CommandTarget
from opserve_client.conform.targets.device import DeviceTarget, Terms
from opserve_client.conform.targets.files import FilesTarget
from opserve_client.conform.targets.function import FunctionTarget, function_at
from opserve_client.conform.targets.target import HeldTarget, InfrastructureError

ITSELF = "opserve"
"""The service that expected values come from, tried itself."""
READY = {
    "torch": "opserve_client.conform.targets.torch_cpu:kernels",
    "onnxruntime": "opserve_client.conform.targets.onnx_runtime:kernels",
}
"""Functions that come with the client, by the package whose kernels they call."""
FORMS = (
    '"opserve", "opserve:HOST:PORT", "opserve:HOST:PORT/profile", "cmd:./program {in} {out}", '
    '"files:FOLDER", "package.module:function", "torch" or "onnxruntime"'
)


PLAIN_TERMS = Terms()
PLAIN = Ways(tls=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a service is reached; it can be handed to another process.

    Attributes:
        address: As Client takes it.
        ways: The key and the files for TLS.
    """

    address: str
    ways: Ways = PLAIN

    def client(self, address: str = "") -> Client:
        """A client of the service, or of the one at another address."""
        return client_at(address or self.address, self.ways)


def target_named(
    name: str, access: Access, *, timeout_s: float, terms: Terms = PLAIN_TERMS
) -> HeldTarget:
    """The target of a name.

    Args:
        name: One of FORMS.
        access: The service that expected values come from.
        timeout_s: Seconds that a program may take for a call.
        terms: Of the sessions on a device.

    Raises:
        InfrastructureError: There is none of that name.
    """
    kind, _, rest = name.partition(":")
    kinds: dict[str, Callable[[], HeldTarget]] = {
        ITSELF: lambda: _device(rest, access, terms),
        "cmd": lambda: CommandTarget(rest, timeout_s),
        "files": lambda: FilesTarget(Path(rest)),
    }
    if kind in kinds:
        return kinds[kind]()
    return FunctionTarget(function_at(_path_of(name)))


def check_target(name: str, timeout_s: float) -> None:
    """Tells what is wrong with a name before a service starts; what needs one is looked at later.

    Raises:
        InfrastructureError: There is no target of that name.
    """
    kind, _, _ = name.partition(":")
    if kind in ("cmd", "files"):
        target_named(name, Access(address=""), timeout_s=timeout_s).close()
    elif kind != ITSELF:
        _path_of(name)


def _path_of(name: str) -> str:
    """Module and function."""
    path = READY.get(name, name)
    if not all(path.partition(":")):
        raise InfrastructureError(f"target: given {name}, allowed {FORMS}")
    return path


def _device(place: str, access: Access, terms: Terms) -> HeldTarget:
    scheme, mark, rest = place.rpartition("://")
    address, _, profile = rest.partition("/")
    return DeviceTarget(access.client(f"{scheme}{mark}{address}"), profile, terms)
