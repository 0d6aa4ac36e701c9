"""Session requests: validation, and the devices that can meet them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from opserve_kernels.errors import CHOICES_CHARACTERS, shortened
from opserve_kernels.operator import Accuracy, DocumentedRules
from opserve_kernels.profiles import DEFAULT_PROFILE, profile_named
from opserve_kernels.status import Status
from opserve_server.core.devices import Device
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.limits import Limits

Choice = TypeVar("Choice", bound=StrEnum)
_SHOWN_CHARACTERS = 64  # of an unknown text


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """A device that a client requests, and its terms.

    Attributes:
        profile: Name or alias of its profile; empty means the default.
        tags: Tags that the administrator must have given it, all of them.
        lease_s: Seconds that the session lives after its last call; 0 means the default.
        workspace_limit_bytes: Limit of the workspace of plans; 0 means any size.
        priority: Position in the device queue, up to the limit of its tenant.
        wait_s: Longest wait for such a device, seconds; 0 means none.
        exclusive: Whether no other session may use the device meanwhile.
        exclusive_s: Seconds after which an exclusive session ends; 0 means the longest.
        accuracy: Error bound of its results, an Accuracy; empty means "direct".
        documented_rules: Answer to calls that break a rule of the vendor's page alone, a
            DocumentedRules; empty means "error".
        here: Whether this service answers, even if another one of the farm has room.
    """

    profile: str = ""
    tags: tuple[str, ...] = ()
    lease_s: float = 0.0
    workspace_limit_bytes: int = 0
    priority: int = 0
    wait_s: float = 0.0
    exclusive: bool = False
    exclusive_s: float = 0.0
    accuracy: str = ""
    documented_rules: str = ""
    here: bool = False


ANY_DEVICE = SessionRequest()
"""A device of the default profile, without a wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """A validated request.

    Attributes:
        devices: All devices that can meet it, now or later; at least one.
        tags: Required tags.
        lease_s: Seconds that the session lives after its last call.
        workspace_limit: Limit of the workspace of plans, bytes; None: any size.
        priority: Its priority.
        wait_s: Longest wait, seconds; 0 means none.
        exclusive_s: Seconds of exclusive use; None: it shares the device.
        accuracy: Error bound of its results.
        documented_rules: Answer to calls that break a rule of the vendor's page alone.
        here: Whether this service answers, even if another one of the farm has room.
    """

    devices: tuple[Device, ...]
    tags: tuple[str, ...]
    lease_s: float
    workspace_limit: int | None
    priority: int
    wait_s: float
    exclusive_s: float | None
    accuracy: Accuracy
    documented_rules: DocumentedRules
    here: bool

    @property
    def profile(self) -> str:
        """Name of the profile."""
        return self.devices[0].profile


def requirements_of(
    request: SessionRequest,
    *,
    devices: Sequence[Device],
    limits: Limits,
    priority_limit: int,
    wait_limit_s: float,
) -> Requirements:
    """Validates a request and selects the devices that can ever meet it.

    Args:
        request: The request.
        devices: Devices of the service.
        limits: Bounds.
        priority_limit: Greatest priority of its tenant.
        wait_limit_s: Longest wait; a longer one is cut to it.

    Raises:
        InvalidArgument: 107001, no device of this service has the profile, or all the tags; 107000,
            a number is out of bounds.
    """
    lease_s = _checked_within(request.lease_s, limits.lease_maximum_s, parameter="lease_s")
    exclusive_s = _checked_within(
        request.exclusive_s, limits.exclusive_limit_s, parameter="exclusive_s"
    )
    return Requirements(
        devices=_devices_of(request, devices, limits),
        tags=tuple(sorted(set(request.tags))),  # no more than a device has
        lease_s=lease_s or limits.lease_default_s,
        workspace_limit=request.workspace_limit_bytes or None,
        priority=_priority(request.priority, priority_limit),
        wait_s=min(_at_least_0(request.wait_s, parameter="wait_s"), wait_limit_s),
        exclusive_s=(exclusive_s or limits.exclusive_limit_s) if request.exclusive else None,
        accuracy=accuracy_of(request.accuracy),
        documented_rules=documented_rules_of(request.documented_rules),
        here=request.here,
    )


def accuracy_of(given: str) -> Accuracy:
    """The accuracy of a name; empty means DIRECT, an unknown name is rejected (107000)."""
    return _choice(given, Accuracy.DIRECT, parameter="accuracy")


def documented_rules_of(given: str) -> DocumentedRules:
    """The documented rules of a name; empty means ERROR, an unknown name is rejected (107000)."""
    return _choice(given, DocumentedRules.ERROR, parameter="documented_rules")


def _choice(given: str, default: Choice, *, parameter: str) -> Choice:
    """The member of a name; empty means the default."""
    if not given:
        return default
    try:
        return type(default)(given)
    except ValueError:
        members = " or ".join(type(default))
        raise _out_of_bounds(parameter, given[:_SHOWN_CHARACTERS], members) from None


def _devices_of(
    request: SessionRequest, devices: Sequence[Device], limits: Limits
) -> tuple[Device, ...]:
    name = (request.profile or DEFAULT_PROFILE)[: limits.name_length_limit]
    served = tuple(sorted({device.profile for device in devices}))
    profile = profile_named(name, available=served).name
    of_profile = [device for device in devices if device.profile == profile]
    matching = tuple(device for device in of_profile if device.tags.issuperset(request.tags))
    if matching:
        return matching
    given = ", ".join(request.tags)[: limits.name_length_limit]
    offered = "; ".join(f"{device.name}: {_listed(device.tags)}" for device in of_profile)
    raise InvalidArgument(
        Status.ACL_ERROR_RT_INVALID_DEVICEID,
        f"No device of {profile} has together the tags {given}: choose tags of one device, of "
        f"{shortened(offered, CHOICES_CHARACTERS)}.",
        parameter="tags",
        given=given,
        allowed=offered,
    )


def _listed(tags: frozenset[str]) -> str:
    return ", ".join(sorted(tags)) or "none"


def _priority(given: int, limit: int) -> int:
    if not 0 <= given <= limit:
        raise _out_of_bounds("priority", given, f"0 to {limit}, the limit of the tenant")
    return given


def _checked_within(given_s: float, maximum_s: float, *, parameter: str) -> float:
    if not 0 <= given_s <= maximum_s:
        raise _out_of_bounds(parameter, given_s, f"0 (the default) to {maximum_s}")
    return given_s


def _at_least_0(given_s: float, *, parameter: str) -> float:
    if not given_s >= 0:  # a NaN is not
        raise _out_of_bounds(parameter, given_s, "at least 0")
    return given_s


def _out_of_bounds(parameter: str, given: object, allowed: str) -> InvalidArgument:
    return InvalidArgument(
        Status.ACL_ERROR_RT_PARAM_INVALID,
        parameter=parameter,
        given=given,
        allowed=allowed,
    )
