"""Records for retries: answers alone, within the limits."""

import asyncio
import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest

from opserve_kernels.status import Status
from opserve_server.core.errors import InvalidArgument, LimitExceeded
from opserve_server.core.principal import LOCAL
from opserve_server.core.requests import AnsweredRequests
from server.core import every_command as c
from server.core.fakes import KIB, LIMITS, FakeDevice, make_service


async def test_answers_of_many_small_commands_are_bounded_too() -> None:
    service = make_service(FakeDevice(), replace(LIMITS, retained_bytes_limit=KIB))
    session = (await service.open_session(LOCAL)).session
    commands: list[c.Command] = [c.CreateEvent(), *[c.QueryStream()] * 31]
    first, again = [
        await service.submit(LOCAL, session, commands, request_id="large") for _ in range(2)
    ]
    assert first[0] != again[0], "an answer larger than the limit is not kept"
    await service.stop()


async def test_requests_that_end_together_leave_nothing_behind() -> None:
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    requests = AnsweredRequests[str](limit=2, retained_bytes_limit=KIB, size_bytes=len)
    late, early = asyncio.Event(), asyncio.Event()

    async def refused() -> str:
        await late.wait()
        raise LimitExceeded(Status.ACL_ERROR_RT_OVER_LIMIT, "full", parameter="", given=0)

    async def answered() -> str:
        await early.wait()
        return "answer"

    waiting = [asyncio.create_task(requests.once("refused", 0, refused))]
    await asyncio.sleep(0)
    early.set()
    assert await requests.once("first", 0, answered) == "answer"
    early.clear()
    waiting.append(asyncio.create_task(requests.once("second", 0, answered)))
    await asyncio.sleep(1)
    early.set()
    late.set()
    await asyncio.wait(waiting)
    assert isinstance(waiting[0].exception(), LimitExceeded)
    assert waiting[1].result() == "answer"
    assert not unhandled


class _Argument:
    """The argument of a refused call."""


async def test_a_kept_refusal_reports_the_same_and_keeps_nothing_of_the_call() -> None:
    requests = AnsweredRequests[str](limit=2, retained_bytes_limit=KIB, size_bytes=len)
    alive: list[weakref.ref[_Argument]] = []

    async def refused() -> str:
        argument = _Argument()
        alive.append(weakref.ref(argument))
        status = Status.ACL_ERROR_RT_PARAM_INVALID
        refused = InvalidArgument(status, "size: given 3", parameter="size", given=3, allowed="4")
        raise refused from ValueError(argument)

    async def error_seen() -> tuple[object, ...]:
        with pytest.raises(InvalidArgument) as refusal:
            await requests.once("id", 0, refused)
        error = refusal.value
        return (
            error.status,
            str(error),
            error.message,
            error.parameter,
            error.given,
            error.allowed,
        )

    first = await error_seen()
    assert [await error_seen() for _ in range(2)] == [first, first]
    assert len(alive) == 1
    await asyncio.sleep(0)  # the loop still holds what woke this test
    gc.collect()
    assert alive[0]() is None


async def test_refusals_are_bounded_by_their_bytes_too() -> None:
    requests = AnsweredRequests[str](limit=8, retained_bytes_limit=KIB, size_bytes=len)
    tries: list[str] = []

    async def refused() -> str:
        tries.append("try")
        raise InvalidArgument(Status.ACL_ERROR_RT_PARAM_INVALID, "long", given="3" * KIB)

    for _ in range(2):
        with pytest.raises(InvalidArgument):
            await requests.once("id", 0, refused)
    assert len(tries) == 2


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (c.SynchronizeStream(timeout_ms=-1), c.SynchronizeStream(timeout_ms=-2)),
        (c.Write(buffer=1, data=b"12"), c.Write(buffer=1, data=b"13")),
        (c.QueryStream(stream=1), c.DestroyStream(stream=1)),
        (c.Fill(buffer=1, offset=2), c.Fill(buffer=1, size_bytes=2)),
        (c.SynchronizeStream(timeout_ms=None), c.SynchronizeStream(timeout_ms=0)),
    ],
)
async def test_another_request_never_passes_for_the_first(
    first: c.Command, other: c.Command
) -> None:
    requests = AnsweredRequests[str](limit=2, retained_bytes_limit=KIB, size_bytes=len)

    async def answered() -> str:
        return "answer"

    assert [await requests.once("id", [first], answered) for _ in range(2)] == ["answer"] * 2
    with pytest.raises(InvalidArgument) as refusal:
        await requests.once("id", [other], answered)
    assert refusal.value.parameter == "request_id"


async def test_work_that_never_waits_runs_once_in_the_task_of_its_caller() -> None:
    requests = AnsweredRequests[str](limit=2, retained_bytes_limit=KIB, size_bytes=len)
    tasks: list[object] = []

    async def answered() -> str:
        tasks.append(asyncio.current_task())
        return "answer"

    async def refused() -> str:
        tasks.append(asyncio.current_task())
        raise InvalidArgument(Status.ACL_ERROR_RT_PARAM_INVALID, "size is 3", given=3)

    async def full() -> str:
        tasks.append(asyncio.current_task())
        raise LimitExceeded(Status.ACL_ERROR_RT_OVER_LIMIT, "full", parameter="", given=0)

    assert [await requests.at_once("a", 0, answered) for _ in range(2)] == ["answer"] * 2
    for work, error, runs in ((refused, InvalidArgument, 1), (full, LimitExceeded, 2)):
        tasks.clear()
        for _ in range(2):
            with pytest.raises(error):
                await requests.at_once(f"{error}", 0, work)
        assert tasks == [asyncio.current_task()] * runs
    with pytest.raises(InvalidArgument, match="named another request"):
        await requests.at_once("a", 1, answered)
