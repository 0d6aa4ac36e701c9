"""What happens in the service, told to one observer: metrics, logs and traces are made from it."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple

from opserve_server.core.copies import CopyEntry
from opserve_server.core.history import HistoryEntry
from opserve_server.core.principal import Principal

LOGGED_CHARACTERS = 8
"""Of a session's name, which is a secret: enough to tell one session from another."""


@dataclass(slots=True, eq=False, kw_only=True)
class Call:
    """A call of a client, from its first byte to its answer.

    Attributes:
        api: Which API it came through.
        method: What was called: a name of the service's own, never a client's text.
        request_id: Its id in logs and answers.
        headers: What came beside it, by names in lower case, but for credentials; nothing once it
            is answered.
        principal: Who calls; None until the guard has said so.
        session: The start of its session's name; empty until it is known.
        device: Name of its session's device.
        operator: The operator that it planned or executed last.
        outcome: The API's code for what it came to; empty where its client hung up.
        failure: What it was refused with; empty where it was not.
        audited: Why a caller was refused, for the audit; empty where it was not.
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
"""The call at work; streams do their work in the context of the call that submitted it."""


def concerns_session(*, name: str, device: str) -> None:
    """The call at work is one in a session."""
    call = CALL.get()
    if call is not None:
        call.session = name[:LOGGED_CHARACTERS]
        call.device = device


def concerns_operator(name: str) -> None:
    """The call at work plans or executes an operator."""
    call = CALL.get()
    if call is not None:
        call.operator = name


# Told of every call and copy: a tuple is made in half the time of a frozen dataclass.


class CallBegan(NamedTuple):
    """A call is at work, in the context that the observer is called in."""

    call: Call


class CallEnded(NamedTuple):
    """A call has its answer, or nobody waits for it any more, after some seconds."""

    call: Call
    seconds: float


class WorkEnded(NamedTuple):
    """Work of a stream is over; told in the context of the call that submitted it."""

    device: str
    profile: str
    entry: HistoryEntry


class CopyEnded(NamedTuple):
    """A copy is over; inline says that its bytes lay inside a command."""

    device: str
    profile: str
    entry: CopyEntry
    inline: bool


Observation = CallBegan | CallEnded | WorkEnded | CopyEnded
Observe = Callable[[Observation], None]


def ignore(observation: Observation) -> None:
    """An observer that nobody reads."""
    del observation
