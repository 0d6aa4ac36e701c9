"""Which devices have room for one more session, at one moment."""

from collections import Counter
from collections.abc import Iterable

from opserve_kernels.status import Status
from opserve_server.core.devices import Device
from opserve_server.core.errors import LimitExceeded, OpserveError, Unavailable
from opserve_server.core.limits import Limits
from opserve_server.core.session import Session
from opserve_server.core.session_request import Wanted


class Room:
    """What is free while those who wait are gone through in their order.

    Args:
        limits: Bounds.
        sessions: All that are open.
        ending: Devices where a session that has ended still stops its work.
    """

    def __init__(
        self, limits: Limits, *, sessions: Iterable[Session], ending: Iterable[Device]
    ) -> None:
        self._limits = limits
        self._counts: Counter[str] = Counter()
        self._alone: set[str] = set()
        self._ending = {device.name for device in ending}
        self._kept: set[str] = set()
        self._keepers: set[str] = set()
        for session in sessions:
            self.take(session.device, exclusive=session.exclusive_s is not None)

    def take(self, device: Device, *, exclusive: bool) -> None:
        """There is one more session on a device."""
        self._counts[device.name] += 1
        if exclusive:
            self._alone.add(device.name)

    def device_for(self, wanted: Wanted) -> Device | None:
        """The least used device that can meet a request now; None where none can."""
        if self._is_full:
            return None
        free = [device for device in wanted.devices if not self._obstacle(device, wanted)]
        return min(free, key=lambda device: self._counts[device.name], default=None)

    def keep(self, wanted: Wanted, *, tenant: str) -> None:
        """Keeps the least used device free for a request that wants one alone; one for a tenant.

        Else sessions that come and go would never leave it empty.
        """
        if wanted.exclusive_s is None or tenant in self._keepers:
            return
        ready = [device for device in wanted.devices if device.ready]
        others = [device for device in ready if device.name not in self._kept]
        if others:
            least = min(others, key=lambda device: self._counts[device.name])
            self._kept.add(least.name)
            self._keepers.add(tenant)

    def waits_for(self, wanted: Wanted) -> str:
        """What has to end before a request can be met; empty where nothing has to."""
        obstacles = {device.name: self._obstacle(device, wanted) for device in wanted.devices}
        if self._is_full and any(device.ready for device in wanted.devices):
            return f"the service's {self._limits.sessions_limit} sessions, its limit"
        return "; ".join(f"{name}: {obstacle}" for name, obstacle in obstacles.items() if obstacle)

    def refusal(self, wanted: Wanted) -> OpserveError:
        """The answer to a request that cannot be met now and does not wait."""
        if not any(device.ready for device in wanted.devices):
            count = len(wanted.devices)
            return Unavailable(
                Status.ACL_ERROR_RT_NO_DEVICE,
                f"profile: given {wanted.profile}, none of whose {count} devices is ready now",
                parameter="profile",
                given=wanted.profile,
                allowed="a later try",
            )
        allowed = self._limits.sessions_limit if self._is_full else "a later try, or wait_s"
        return LimitExceeded(
            Status.ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            f"session: given one more beside {self.waits_for(wanted)}, allowed {allowed}",
            parameter="session",
            given="one more",
            allowed=allowed,
        )

    @property
    def _is_full(self) -> bool:
        return self._counts.total() >= self._limits.sessions_limit

    def _obstacle(self, device: Device, wanted: Wanted) -> str:
        count, limit = self._counts[device.name], self._limits.device_sessions_limit
        alone = wanted.exclusive_s is not None
        if not device.ready:
            return "is not ready"
        if device.name in self._alone:
            return "an exclusive session"
        if count >= limit:
            return f"{count} sessions, its limit"
        if alone and count:
            return f"{count} sessions, where none may be"
        if alone and device.name in self._ending:
            return "a session that ends"
        return "is kept for a request before this one" if device.name in self._kept else ""
