"""What is kept for retries: answers alone, and no more of them than the limits allow."""

import asyncio
from dataclasses import replace
from typing import Any

from opserve_kernels.status import Status
from opserve_server.core import commands as c
from opserve_server.core.errors import LimitExceeded
from opserve_server.core.principal import LOCAL
from opserve_server.core.requests import AnsweredRequests
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
    asyncio.get_running_loop().set_exception_handler(lambda _, told: unhandled.append(told))
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
