"""Long answers are made in slices."""

import json

import pytest

from opserve_server.core.copies import CopyEntry, CopyKind
from opserve_server.core.history import HistoryEntry, Outcome, WorkKind
from opserve_server.core.time_slices import ITEMS_PER_SLICE
from opserve_server.core.timeline import StreamTimeline, Timeline
from opserve_server.grpc_api import histories as over_grpc
from opserve_server.rest_api import histories as over_rest
from server.loop_iterations import LoopIterations

COPY = CopyEntry(kind=CopyKind.READ, buffer=3, size_bytes=64, started_s=1.0, ended_s=2.0)


def work(number: int) -> HistoryEntry:
    return HistoryEntry(
        sequence=number,
        number=number,
        kind=WorkKind.EXECUTE,
        handle=9,
        operator="im2col_backward",
        queued_s=1.0,
        started_s=2.0,
        ended_s=3.0,
        kernel_s=0.5,
        outcome=Outcome.DONE,
        status=None,
    )


ENTRIES = tuple(map(work, range(1, 40)))
LONG = Timeline(
    streams=tuple(StreamTimeline(stream=number, entries=ENTRIES) for number in range(64)),
    copies=(COPY,) * 640,
)
SLICES = (64 * len(ENTRIES) + 640) // ITEMS_PER_SLICE


async def test_a_timeline_over_grpc_is_made_in_turns() -> None:
    iterations = LoopIterations()
    answer = await over_grpc.timeline_of(LONG)
    assert iterations.count >= SLICES - 1
    assert [one.stream for one in answer.streams] == list(range(64))
    assert {len(one.entries) for one in answer.streams} == {len(ENTRIES)}
    assert len(answer.copies) == 640


@pytest.mark.parametrize("timeline", [LONG, Timeline(streams=(), copies=())])
async def test_a_timeline_over_rest_is_made_in_turns(timeline: Timeline) -> None:
    iterations = LoopIterations()
    answer = json.loads(await over_rest.timeline_of(timeline))
    assert [one["stream"] for one in answer["streams"]] == list(range(len(timeline.streams)))
    for one in answer["streams"]:
        assert [entry["sequence"] for entry in one["entries"]] == list(range(1, 40))
    assert len(answer["copies"]) == len(timeline.copies)
    if timeline is LONG:
        assert iterations.count >= SLICES - 1
