"""Answers that are no value of the core, for the OpenAPI document."""

from dataclasses import dataclass
from typing import Any

from opserve_kernels.description import OperatorDescription
from opserve_server.core.infos import DeviceInfo, WaitingInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The devices of the service."""

    devices: list[DeviceInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class StillWaiting:
    """A request for a device that waits; the same request again goes on waiting."""

    waiting: WaitingInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequests:
    """The tenant's requests that wait for a device, in their order."""

    waiting: list[WaitingInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operators:
    """Every operator: its arguments, dtypes by profile, limits and errors."""

    operators: list[OperatorDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A renewed lease."""

    lease_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """One entry for each command that ran: its key and result; the failed one's `error` last."""

    results: list[dict[str, Any]]
