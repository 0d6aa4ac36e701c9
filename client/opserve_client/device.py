"""Devices of a service."""

from dataclasses import dataclass

from typing_extensions import override

from opserve.v1 import session_service_pb2 as session_pb2

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Device:
    """A virtual device at the time of the call that returned it.

    Attributes:
        name: Name within the service, such as "ascend910b-0".
        profile: The profile that a session requests, such as "ascend910b".
        products: The vendor's product names.
        operators: Supported operators by the vendor's names.
        memory_bytes: Memory in bytes.
        free_memory_bytes: Free memory in bytes.
        ready: Whether its worker responds.
        sessions: Number of open sessions.
        tags: Tags that sessions can require.
        exclusive: Whether one session excludes all others.
        kernel_variant: Kernel variant that fixes the bytes of its results; empty on `reference`
            and on services that do not report one.
        host: Name of its service in a farm; empty outside a farm.
    """

    name: str
    profile: str
    products: str
    operators: tuple[str, ...]
    memory_bytes: int
    free_memory_bytes: int
    ready: bool
    sessions: int
    tags: tuple[str, ...]
    exclusive: bool
    kernel_variant: str = ""
    host: str = ""

    @override
    def __repr__(self) -> str:
        state = f"{'ready' if self.ready else 'not ready'}, sessions: {self.sessions}"
        memory = f"{self.free_memory_bytes // _MIB} of {self.memory_bytes // _MIB} MiB free"
        exclusive = ", exclusive" if self.exclusive else ""
        host = f" of {self.host}" if self.host else ""
        return f"<Device {self.name}{host} ({self.profile}): {state}, {memory}{exclusive}>"


def device_of(message: session_pb2.Device) -> Device:
    """Returns the device of a message."""
    return Device(
        name=message.name,
        profile=message.profile,
        products=message.products,
        operators=tuple(message.operators),
        memory_bytes=message.memory_bytes,
        free_memory_bytes=message.free_memory_bytes,
        ready=message.ready,
        sessions=message.sessions,
        tags=tuple(message.tags),
        exclusive=message.exclusive,
        kernel_variant=message.kernel_variant,
        host=message.host,
    )
