"""Devices that can take one more session, at one moment."""

from collections.abc import Iterable, Mapping

from opserve_kernels.errors import CHOICES_CHARACTERS, shortened
from opserve_kernels.status import Status
from opserve_server.core.devices import Device
from opserve_server.core.errors import LimitExceeded, OpserveError, Unavailable
from opserve_server.core.limits import Limits
from opserve_server.core.session_request import Requirements


class Capacity:
    """Remaining capacity while queued requests are served in their order.

    Args:
        limits: Bounds.
        sessions: Open sessions by device, each device once.
        exclusive: Devices with an exclusive session.
        ending: Devices where a closed session still stops its work.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        sessions: Mapping[str, int],
        exclusive: Iterable[str],
        ending: Iterable[Device],
    ) -> None:
        self._limits = limits
        self._counts = dict(sessions)
        self._exclusive = set(exclusive)
        self._ending = {device.name for device in ending}
        self._reserved: set[str] = set()
        self._reserving_tenants: set[str] = set()

    def take(self, device: Device, *, exclusive: bool) -> None:
        """Counts one more session on a device."""
        self._counts[device.name] += 1
        if exclusive:
            self._exclusive.add(device.name)

    def device_for(self, requirements: Requirements) -> Device | None:
        """The least used device that meets a request now; None without one."""
        # The limit of the service is no obstacle of a single device, see waits_for.
        if self._is_full:
            return None
        free = [
            device for device in requirements.devices if not self._obstacle(device, requirements)
        ]
        # The least used device spreads sessions, and leaves exclusive requests the best chance.
        return min(free, key=lambda device: self._counts[device.name], default=None)

    def reserve(self, requirements: Requirements, *, tenant: str) -> None:
        """Reserves the least used device for an exclusive request; one device per tenant.

        Without a reservation, sessions that come and go would never leave a device empty.
        """
        # One device per tenant: otherwise exclusive requests of one tenant could block every
        # device.
        if requirements.exclusive_s is None or tenant in self._reserving_tenants:
            return
        ready = [device for device in requirements.devices if device.ready]
        unreserved = [device for device in ready if device.name not in self._reserved]
        if unreserved:
            least_used = min(unreserved, key=lambda device: self._counts[device.name])
            self._reserved.add(least_used.name)
            self._reserving_tenants.add(tenant)

    def waits_for(self, requirements: Requirements) -> str:
        """Obstacles to a request, in words; empty without one."""
        obstacles = {
            device.name: self._obstacle(device, requirements) for device in requirements.devices
        }
        if self._is_full and any(device.ready for device in requirements.devices):
            return f"the service's {self._limits.sessions_limit} sessions, its limit"
        return "; ".join(f"{name}: {obstacle}" for name, obstacle in obstacles.items() if obstacle)

    def refusal(self, requirements: Requirements) -> OpserveError:
        """The error for a request that cannot be met now and does not wait."""
        if not any(device.ready for device in requirements.devices):
            count = len(requirements.devices)
            return Unavailable(
                Status.ACL_ERROR_RT_NO_DEVICE,
                f"None of the {count} devices of profile {requirements.profile} is ready now: "
                "retry later.",
                parameter="profile",
                given=requirements.profile,
                allowed="a later try",
            )
        waits_for = shortened(self.waits_for(requirements), CHOICES_CHARACTERS)
        allowed = self._limits.sessions_limit if self._is_full else "a later try, or wait_s"
        return LimitExceeded(
            Status.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            f"The session must wait for {waits_for}: close one first, retry later, or pass wait_s.",
            parameter="session",
            given="one more",
            allowed=allowed,
        )

    @property
    def _is_full(self) -> bool:
        return sum(self._counts.values()) >= self._limits.sessions_limit

    def _obstacle(self, device: Device, requirements: Requirements) -> str:
        count, limit = self._counts[device.name], self._limits.device_sessions_limit
        exclusive = requirements.exclusive_s is not None
        if not device.ready:
            return "is not ready"
        if device.name in self._exclusive:
            return "an exclusive session"
        if count >= limit:
            return f"{count} sessions, its limit"
        if exclusive and count:
            return f"{count} sessions, where none may be"
        # A closed session may still write to its memory until its device confirms the stop.
        if exclusive and device.name in self._ending:
            return "a session that ends"
        return "is reserved for a request before this one" if device.name in self._reserved else ""
