"""Commands of a session, one or many in order: who carries out which."""

from collections.abc import Sequence
from typing import assert_never

from opserve_kernels.status import Status
from opserve_server.core import (
    event_commands,
    memory_commands,
    operator_commands,
    stream_commands,
)
from opserve_server.core.commands import (
    AbortStream,
    Allocate,
    Command,
    Copy,
    CreateEvent,
    CreateStream,
    DestroyEvent,
    DestroyExecutor,
    DestroyStream,
    EventElapsedTime,
    Execute,
    Fill,
    Free,
    GetWorkspaceSize,
    QueryEvent,
    QueryStream,
    Read,
    RecordEvent,
    SetFailureMode,
    SetRepeatable,
    SetTensorBuffer,
    StreamWaitEvent,
    SynchronizeEvent,
    SynchronizeStream,
    Write,
)
from opserve_server.core.errors import LimitExceeded, OpserveError, unraised
from opserve_server.core.limits import Limits
from opserve_server.core.results import Failed, Result
from opserve_server.core.session import Session
from opserve_server.core.turns import ITEMS_A_TURN, give_way

_LONG = (Allocate, GetWorkspaceSize)
"""Commands that may take milliseconds: to make pages, and to plan."""


def check_count(commands: int, limits: Limits) -> None:
    """Refuses a batch of too many commands (207012)."""
    _check_limit("commands", commands, limits.commands_per_submit_limit)


def check_batch(commands: Sequence[Command], limits: Limits) -> None:
    """Refuses a batch of too many commands or bytes (207012)."""
    check_count(len(commands), limits)
    sizes = [_inline_bytes(command) for command in commands]
    _check_limit("data", max(sizes, default=0), limits.inline_bytes_limit)
    _check_limit("commands", sum(sizes), limits.submit_bytes_limit)


async def run_up_to_failure(session: Session, commands: Sequence[Command]) -> list[Result]:
    """Runs commands in order up to the first failure, whose Failed is the last result."""
    results: list[Result] = []
    for number, command in enumerate(commands, 1):
        try:
            results.append(await run_command(session, command))
        except OpserveError as error:
            results.append(Failed(error=unraised(error)))
            break
        if isinstance(command, _LONG) or number % ITEMS_A_TURN == 0:
            await give_way()
    return results


async def run_command(session: Session, command: Command) -> Result:
    """Runs one command; raises OpserveError."""
    session.check_open()
    match command:
        case Allocate() | Free() | Fill() | Write() | Read() | Copy():
            return await memory_commands.run(session, command)
        case (
            GetWorkspaceSize() | Execute() | SetRepeatable() | SetTensorBuffer() | DestroyExecutor()
        ):
            return operator_commands.run(session, command)
        case (
            CreateStream()
            | DestroyStream()
            | SetFailureMode()
            | SynchronizeStream()
            | AbortStream()
            | QueryStream()
        ):
            return await stream_commands.run(session, command)
        case (
            CreateEvent()
            | DestroyEvent()
            | RecordEvent()
            | StreamWaitEvent()
            | QueryEvent()
            | SynchronizeEvent()
            | EventElapsedTime()
        ):
            return await event_commands.run(session, command)
        case _:
            assert_never(command)


def _inline_bytes(command: Command) -> int:
    match command:
        case Write():
            return len(command.data)
        case Read():
            return max(command.size_bytes, 0)
        case _:
            return 0


def _check_limit(parameter: str, given: int, limit: int) -> None:
    if given > limit:
        raise LimitExceeded(
            Status.ACL_ERROR_RT_OVER_LIMIT,
            f"{parameter}: given {given} in one batch, allowed {limit}",
            parameter=parameter,
            given=given,
            allowed=limit,
        )
