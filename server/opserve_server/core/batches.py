"""Batches: many commands of a session, in order."""

from collections.abc import Sequence

from opserve_kernels.errors import rejection
from opserve_kernels.status import Status
from opserve_server.core.commands import HANDLERS, Command
from opserve_server.core.errors import CallTooLarge, OpserveError, unraised
from opserve_server.core.limits import Limits
from opserve_server.core.memory_commands import Read, Write
from opserve_server.core.operator_commands import Execute
from opserve_server.core.results import Failed, Result
from opserve_server.core.session import Session
from opserve_server.core.stream_commands import SynchronizeStream
from opserve_server.core.time_slices import ITEMS_PER_SLICE, end_slice
from opserve_server.core.work import KernelRun


def check_count(commands: int, limits: Limits) -> None:
    """Rejects a batch of too many commands (207012)."""
    _check_limit("commands", commands, limits.commands_per_submit_limit)


def check_batch(commands: Sequence[Command], limits: Limits) -> None:
    """Rejects a batch of too many commands or bytes (207012)."""
    check_count(len(commands), limits)
    sizes = [_inline_bytes(command) for command in commands]
    _check_limit("data", max(sizes, default=0), limits.inline_bytes_limit)
    _check_limit("commands", sum(sizes), limits.submit_bytes_limit)


async def run_up_to_failure(session: Session, commands: Sequence[Command]) -> list[Result]:
    """Runs commands in order up to the first failure, whose Failed is the last result.

    A stream reports each failure to one wait, which may be that of another batch, and the first of
    several failures only. So a wait also fails if a call of its own batch on its stream did.
    """
    results: list[Result] = []
    executed: dict[int, list[KernelRun | None]] = {}  # by stream
    for number, command in enumerate(commands, 1):
        handler = HANDLERS[type(command)]
        try:
            session.check_open()
            result = await handler.run(session, command)
            if isinstance(command, Execute):
                # No other batch has had a turn since.
                newest = session.streams.get(command.stream).newest
                executed.setdefault(command.stream, []).append(newest)
            elif isinstance(command, SynchronizeStream):
                _check_all(executed.get(command.stream, ()))
            results.append(result)
        except OpserveError as error:
            # Without its traceback: the result may be kept for retries.
            results.append(Failed(error=unraised(error)))
            break
        if handler.long or number % ITEMS_PER_SLICE == 0:
            await end_slice()
    return results


def _check_all(executed: Sequence[KernelRun | None]) -> None:
    """Raises the first failure of these calls."""
    for work in executed:
        if work is not None and work.error is not None:
            raise work.error


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
        raise CallTooLarge(
            Status.ACL_ERROR_RT_OVER_LIMIT,
            rejection(parameter, given=f"{given} in one batch", allowed=f"at most {limit}"),
            parameter=parameter,
            given=given,
            allowed=limit,
        )
