"""Observations of work and copies, and the context in which they arrive."""

import asyncio

from opserve_server.core.history import Outcome
from opserve_server.core.observations import (
    CALL,
    Call,
    CopyEnded,
    Observation,
    WorkEnded,
)
from opserve_server.core.principal import LOCAL
from opserve_server.core.service import Service
from server.core import every_command as c
from server.core.caller import Caller
from server.core.fakes import LIMITS


async def observed(observations: list[tuple[str, Observation]]) -> Caller:
    """A caller whose observations are written down, with the request that was at work."""

    def observe(observation: Observation) -> None:
        call = CALL.get()
        observations.append((call.request_id if call else "", observation))

    caller = Caller()
    caller.service = Service([caller.device], limits=LIMITS, observe=observe)
    await caller.open()
    return caller


def call(request_id: str) -> Call:
    return Call(api="grpc", method="Execute", request_id=request_id, headers={})


async def test_work_is_observed_in_the_context_of_the_call_that_submitted_it() -> None:
    observations: list[tuple[str, Observation]] = []
    caller = await observed(observations)
    execute = await caller.repeatable()
    for request_id in ("first", "second", "third"):
        CALL.set(call(request_id))
        await caller.run(execute)
    CALL.set(call("abort"))
    await asyncio.sleep(1)
    await caller.finish()
    aborting = asyncio.create_task(caller.run(c.AbortStream()))
    await asyncio.sleep(1)
    while caller.device.held:
        await caller.finish()
    await aborting
    ended = [(who, what.entry.outcome) for who, what in observations if isinstance(what, WorkEnded)]
    assert ended[0] == ("first", Outcome.DONE)
    assert sorted(ended[1:]) == [("second", Outcome.ABORTED), ("third", Outcome.ABORTED)]
    await caller.service.stop()
    caller.device.slabs.close()


async def test_copies_and_the_session_of_a_call_are_observed() -> None:
    observations: list[tuple[str, Observation]] = []
    caller = await observed(observations)
    buffer = await caller.buffer()
    at_work = call("copying")
    CALL.set(at_work)
    await caller.run(c.Write(buffer=buffer, data=b"12"))
    async for _ in caller.service.read(LOCAL, caller.name, buffer=buffer, offset=0, size_bytes=3):
        pass
    copies = [(who, what) for who, what in observations if isinstance(what, CopyEnded)]
    assert [(who, what.entry.size_bytes, what.inline) for who, what in copies] == [
        ("copying", 2, True),
        ("copying", 3, False),
    ]
    assert (at_work.session, at_work.device) == (caller.name[:8], "ascend910b-0")
    planned = await caller.plan()
    assert at_work.operator == "im2col_backward"
    assert planned.executor
    await caller.service.stop()
    caller.device.slabs.close()
