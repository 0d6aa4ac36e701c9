"""State of a service as a watch reports it, and its series."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TypeAlias

from opserve.v1.watch_service_pb2 import GetSeriesResponse
from opserve_client.errors import malformed_answer
from opserve_client.wire.json_messages import Json

Items: TypeAlias = Mapping[str, Mapping[str, Json]]
"""Items by name, as docs/reference/watch.md lists their members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedState:
    """The part of a service that a caller may see, at one moment.

    Attributes:
        devices: All devices, by name.
        waiting: Session requests in the queue, by id.
        sessions: Open sessions, by id.
        runs: The newest runs of suites, by id.
        service: "state" and "usage".
    """

    devices: Items = field(default_factory=dict[str, Mapping[str, Json]])
    waiting: Items = field(default_factory=dict[str, Mapping[str, Json]])
    sessions: Items = field(default_factory=dict[str, Mapping[str, Json]])
    runs: Items = field(default_factory=dict[str, Mapping[str, Json]])
    service: Items = field(default_factory=dict[str, Mapping[str, Json]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The latest points of series.

    Attributes:
        step_s: Seconds between two points.
        end: Time of the last point, ISO 8601 in UTC.
        points: Points by series and label, the oldest first.
    """

    step_s: float
    end: str
    points: Mapping[str, Mapping[str, list[float]]]


def state_after(state: WatchedState, change: str) -> WatchedState:
    """Returns the state after a change: items replace others of the same name, null removes one.

    Raises:
        AclrtError: The change is not the JSON object of a watch.
    """
    try:
        members = json.loads(change)
        changed = {
            member: {
                name: item
                for name, item in (getattr(state, member) | members[member]).items()
                if item is not None
            }
            for member in (one.name for one in fields(WatchedState))
            if members.get(member)
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise malformed_answer(f"The change of a watch is not readable: {change[:64]}") from error
    return replace(state, **changed)


def series_of(message: GetSeriesResponse) -> Series:
    """Returns the series of a message."""
    points: dict[str, dict[str, list[float]]] = json.loads(message.series or "{}")
    return Series(step_s=message.step_s, end=message.end, points=points)
