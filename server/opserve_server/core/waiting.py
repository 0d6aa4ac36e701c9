"""Waits: with a deadline, and one that a cancellation does not cut short."""

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

from opserve_kernels.status import Status
from opserve_server.core.errors import InvalidArgument, WaitTimedOut

ResultT = TypeVar("ResultT")


def wait_seconds(timeout_ms: int | None, limit_s: float) -> float:
    """Seconds of a client's timeout: None and -1 mean the limit; a longer one is cut to it.

    Raises:
        InvalidArgument: 107000, a negative timeout other than -1.
    """
    if timeout_ms is None or timeout_ms == -1:
        return limit_s
    if timeout_ms < 0:
        raise InvalidArgument(
            Status.ACL_ERROR_RT_PARAM_INVALID,
            parameter="timeout_ms",
            given=timeout_ms,
            allowed="-1 or at least 0",
        )
    return min(timeout_ms / 1000.0, limit_s)


async def wait_for_all(
    done: Collection[asyncio.Future[None]], *, timeout_s: float, status: Status, what: str
) -> None:
    """Waits for futures without cancelling them.

    Raises:
        WaitTimedOut: With `status`, they were not done in time.
    """
    if not done:
        return
    # asyncio.wait leaves the futures alone, whereas wait_for would cancel them for everyone else.
    _, pending = await asyncio.wait(done, timeout=timeout_s)
    if pending:
        raise WaitTimedOut(
            status,
            f"timeout_ms of {timeout_s * 1000:.0f} is over, and {what} is not done: wait again, or "
            "longer.",
            parameter="timeout_ms",
            given=f"{timeout_s * 1000:.0f}",
            allowed="a longer wait",
        )


async def to_its_end(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Returns the result of work. A cancellation takes effect after the work has ended."""
    working = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        # The work has resources that must not be released while it runs.
        await asyncio.wait([working])
        raise
