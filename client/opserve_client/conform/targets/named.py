"""Targets by name, as in `--target`."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from opserve_client._sync.client import Client
from opserve_client.cli_connection import ConnectionOptions, client_at
from opserve_client.conform.targets.aclnn import AclnnTarget, device_of, paths_in
from opserve_client.conform.targets.command import CommandTarget
from opserve_client.conform.targets.device import DeviceTarget, OnWait, SessionOptions, silent
from opserve_client.conform.targets.files import FilesTarget
from opserve_client.conform.targets.function import FunctionTarget, check_module, function_at
from opserve_client.conform.targets.target import ClosableTarget, InfrastructureError
from opserve_client.errors import OpserveError
from opserve_kernels.errors import rejection

_LIBRARIES = "aclnn"
SERVICE_UNDER_TEST = "opserve"
"""Target name of the devices of the service that computes expected values."""
BUILT_IN_TARGETS = {
    "torch": "opserve_client.conform.targets.torch_cpu:kernels",
    "onnxruntime": "opserve_client.conform.targets.onnx_runtime:kernels",
}
"""Functions of the client as targets, by the package whose kernels they call."""
_PACKAGES = {"torch": ("torch",), "onnxruntime": ("onnxruntime", "onnx")}
"""Packages that these functions import."""
FORMS = (
    '"opserve", "opserve:HOST:PORT", "opserve:HOST:PORT/profile", "cmd:./program {in} {out}", '
    '"files:FOLDER", "aclnn:LIBDIR", "package.module:function", "torch" or "onnxruntime"'
)


DEFAULT_OPTIONS = SessionOptions()
NO_CREDENTIALS = ConnectionOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Access to a service; can be pickled for another process.

    Attributes:
        address: Address of the service, as for Client.
        connection: API key and certificates.
    """

    address: str
    connection: ConnectionOptions = NO_CREDENTIALS

    def client(self, address: str = "") -> Client:
        """Opens a client of the service, or of the service at another address."""
        return client_at(address or self.address, self.connection)


def target_named(
    name: str,
    access: Access,
    *,
    timeout_s: float,
    session_options: SessionOptions = DEFAULT_OPTIONS,
    on_wait: OnWait = silent,
) -> ClosableTarget:
    """Returns the target of a name.

    Args:
        name: One of FORMS.
        access: Access to the service that computes expected values.
        timeout_s: Time limit of a call of a program, in seconds.
        session_options: Options of the sessions on a device.
        on_wait: Called once for each wait for the service of a device.

    Raises:
        InfrastructureError: There is no target of that name.
    """
    kind, _, rest = name.partition(":")
    kinds: dict[str, Callable[[], ClosableTarget]] = {
        SERVICE_UNDER_TEST: lambda: _device(rest, access, session_options, on_wait),
        "cmd": lambda: CommandTarget(rest, timeout_s),
        "files": lambda: FilesTarget(Path(rest)),
        _LIBRARIES: lambda: AclnnTarget(Path(rest)),
    }
    if kind in kinds:
        return kinds[kind]()
    return FunctionTarget(function_at(_path_of(name)))


def check_target(name: str, timeout_s: float) -> None:
    """Checks the name of a target before a service starts, as far as that needs no service.

    Raises:
        InfrastructureError: There is no target of that name.
    """
    kind, _, _ = name.partition(":")
    if kind in ("cmd", "files"):
        target_named(name, Access(address=""), timeout_s=timeout_s).close()
    elif kind == _LIBRARIES:
        paths_in(Path(name.partition(":")[2]))
    elif kind != SERVICE_UNDER_TEST:
        check_module(_path_of(name))


def _path_of(name: str) -> str:
    """Returns the module and the function of a target."""
    if missing := [one for one in _PACKAGES.get(name, ()) if find_spec(one) is None]:
        packages = " ".join(missing)
        raise InfrastructureError(
            f"target {name} needs a package that this environment lacks: pip install {packages}"
        )
    path = BUILT_IN_TARGETS.get(name, name)
    if not all(path.partition(":")):
        raise InfrastructureError(rejection("target", given=name, allowed=FORMS))
    return path


def kernel_variant_of(name: str, access: Access, profiles: Collection[str]) -> str:
    """Returns the kernel variant of the devices of a target; "" for targets without devices.

    Of libraries with the vendor's C interface it is the device, its driver and the libraries.

    Args:
        name: Name of the target.
        access: Access to the service that computes expected values.
        profiles: Profiles of the cases: devices of other profiles run none of them.

    Raises:
        InfrastructureError: The service of the devices does not answer.
    """
    kind, _, place = name.partition(":")
    if kind == _LIBRARIES:
        return device_of(Path(place))
    if kind != SERVICE_UNDER_TEST:
        return ""
    client, profile = _service_at(place, access)
    running = {profile}.intersection(profiles) if profile else profiles
    try:
        with client:
            devices = [device for device in client.list_devices() if device.profile in running]
    except OpserveError as error:
        raise InfrastructureError(f"target: {error}") from error
    return max((device.kernel_variant for device in devices), default="")


def _device(
    place: str, access: Access, session_options: SessionOptions, on_wait: OnWait
) -> ClosableTarget:
    client, profile = _service_at(place, access)
    return DeviceTarget(client, profile, session_options, on_wait=on_wait)


def _service_at(place: str, access: Access) -> tuple[Client, str]:
    """Returns a client of the service in the name of a target, and the named profile."""
    scheme, mark, rest = place.rpartition("://")
    address, _, profile = rest.partition("/")
    return access.client(f"{scheme}{mark}{address}"), profile
