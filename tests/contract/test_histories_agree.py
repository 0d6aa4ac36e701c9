"""Over both faces and in both clients a stream's history reads the same, and a trace opens."""

import json
from typing import Any

import numpy as np
import pytest

from contract.faces import AnySession, every_session, settle
from opserve.v1.stream_service_pb2 import StreamEntry
from opserve_client import Im2colBackward, OpserveError
from opserve_client.private_service import Addresses

pytestmark = pytest.mark.system
COLUMNS = np.ones((1, 4, 4), np.float32)


def call() -> Im2colBackward:
    return Im2colBackward(
        grad_output=COLUMNS,
        input_size=[3, 3],
        kernel_size=[2, 2],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
    )


async def read(watching: Any, count: int) -> list[StreamEntry]:
    """The first entries of a watch, blocking or not."""
    entries: list[StreamEntry] = []
    if hasattr(watching, "__anext__"):
        while len(entries) < count:
            entries.append(await anext(watching))
        await watching.aclose()
    else:
        while len(entries) < count:
            entries.append(next(watching))
        watching.close()
    return entries


async def drain(watching: Any) -> list[StreamEntry]:
    """All entries, until the watch ends by itself."""
    if hasattr(watching, "__anext__"):
        return [entry async for entry in watching]
    return list(watching)


async def work(session: AnySession) -> None:
    for _ in range(3):
        await settle(session.run(call()))
    event = await settle(session.create_event())
    await settle(event.record())
    await settle(session.default_stream.wait_event(event))


async def test_a_history_reads_the_same_by_every_way(service: Addresses) -> None:
    async with every_session(service, "ascend910b") as sessions:
        histories: list[list[tuple[object, ...]]] = []
        for session in sessions.values():
            await work(session)
            entries = await read(session.default_stream.watch(after=1), 4)
            assert all(e.queued_s <= e.started_s <= e.ended_s for e in entries)
            told = [(e.sequence, e.kind, e.handle, e.operator, e.outcome) for e in entries]
            histories.append(list(told))
        first = histories[0]
        assert [sequence for sequence, *_ in first] == [2, 3, 4, 5]
        assert all(history == first for history in histories)


async def test_a_watch_ends_with_its_stream_and_refuses_a_dead_one(service: Addresses) -> None:
    async with every_session(service, "ascend910b") as sessions:
        for session in sessions.values():
            stream = await settle(session.create_stream())
            event = await settle(session.create_event())
            await settle(event.record(stream))
            watching = stream.watch()
            (first,) = await read(stream.watch(), 1)
            assert first.handle == event.handle
            await settle(stream.destroy())
            with pytest.raises(OpserveError, match=str(stream.handle)):
                await drain(watching)


async def test_a_trace_has_kernels_and_copies_by_every_way(service: Addresses) -> None:
    async with every_session(service, "ascend910b") as sessions:
        for session in sessions.values():
            await work(session)
            trace = json.loads(json.dumps(await settle(session.trace())))
            slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
            assert [s["name"] for s in slices if s["cat"] == "kernel"] == ["im2col_backward"] * 3
            copies = [(s["name"], s["args"]["size_bytes"]) for s in slices if s["cat"] == "copy"]
            assert copies == [("write", COLUMNS.nbytes), ("read", 36)] * 3
