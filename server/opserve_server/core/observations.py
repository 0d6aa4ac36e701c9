"""Observations: events of the service, from which metrics, logs and traces are made."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

from opserve_server.core.copies import CopyEntry
from opserve_server.core.history import HistoryEntry
from opserve_server.core.principal import Principal

LOGGED_CHARACTERS = 8
"""Logged characters of a session's name, which is a secret; enough to distinguish sessions."""


@dataclass(slots=True, eq=False, kw_only=True)
class Call:
    """A call of a client, from its first byte to its answer.

    Attributes:
        api: Its API.
        method: The called method: a name of the service's own, never a client's text.
        request_id: Its id in logs and answers.
        headers: Its headers, by names in lower case, without credentials; empty after the answer.
        principal: The caller; None until the guard has authenticated it.
        session: The start of its session's name; empty until it is known.
        device: Name of its session's device.
        operator: The operator that it planned or executed last.
        outcome: The API's code of its outcome; empty where its client disconnected.
        failure: Message of its error; empty without one.
        audited: Reason of the caller's rejection, for the audit; empty without one.
    """

    api: str
    method: str
    request_id: str
    headers: Mapping[str, str | bytes]
    principal: Principal | None = None
    session: str = ""
    device: str = ""
    operator: str = ""
    outcome: str = ""
    failure: str = ""
    audited: str = ""


CALL: ContextVar[Call | None] = ContextVar("call", default=None)
"""The current call; work of a stream runs in the context of the call that submitted it."""


def concerns_session(*, name: str, device: str) -> None:
    """Sets the session of the current call."""
    call = CALL.get()
    if call is not None:
        call.session = name[:LOGGED_CHARACTERS]
        call.device = device


def concerns_operator(name: str) -> None:
    """Sets the operator of the current call."""
    call = CALL.get()
    if call is not None:
        call.operator = name


# Created for every call and copy: a tuple takes half the time of a frozen dataclass.


class CallBegan(NamedTuple):
    """A call has begun, in the context in which the observer runs."""

    call: Call


class CallEnded(NamedTuple):
    """A call was answered or abandoned after some seconds."""

    call: Call
    seconds: float


class WorkEnded(NamedTuple):
    """Work of a stream has ended; observed in the context of the call that submitted it."""

    device: str
    profile: str
    entry: HistoryEntry


class CopyEnded(NamedTuple):
    """A copy has ended; inline means that its bytes were inside a command."""

    device: str
    profile: str
    entry: CopyEntry
    inline: bool


Observation = CallBegan | CallEnded | WorkEnded | CopyEnded
Observe = Callable[[Observation], None]


def ignore(observation: Observation) -> None:
    """An observer that does nothing."""
    del observation
