"""A small model of a session, which the core's state machine is compared with."""

import math
from collections import deque
from dataclasses import dataclass, field
from itertools import takewhile

from opserve_kernels.operators.im2col_backward.schema import Im2colBackward
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Tensor

HURRY_MS = 5000
"""Shortest deadline, longer than any step takes and far shorter than a lease."""


@dataclass
class ModelExecutor:
    """A planned call and the buffers it names."""

    buffers: set[int]
    workspace_size: int
    repeatable: bool


@dataclass(eq=False)
class ModelWork:
    """Queued work: "run" an executor, "mark" or "wait" for a record.

    Attributes:
        kind: Which.
        subject: The executor or the record.
        deadline_s: When a run must have ended.
        stopped_by: The code for which the device was ordered to stop a run.
    """

    kind: str
    subject: int
    deadline_s: float = math.inf
    stopped_by: Status | None = None


@dataclass
class ModelStream:
    """Queued work in order, and the executor and code that the next synchronise must tell."""

    queue: deque[ModelWork] = field(default_factory=deque[ModelWork])
    failed: tuple[int, Status] | None = None

    @property
    def next_runs(self) -> int:
        """Runs that no record and no wait holds."""
        return sum(1 for _ in takewhile(lambda work: work.kind == "run", self.queue))

    def fail(self, work: ModelWork, status: Status) -> None:
        """A run ended badly, or was dropped."""
        self.failed = self.failed or (work.subject, status)

    def abort(self, *, at_device: int) -> None:
        """Stops calls on the device, and drops those behind them but for records."""
        rest = list(self.queue)[at_device:]
        for work in rest:
            if work.kind == "run":
                self.fail(work, Status.ACL_ERROR_RT_STREAM_ABORT)
        running = list(self.queue)[:at_device]
        for work in running:
            work.stopped_by = work.stopped_by or Status.ACL_ERROR_RT_STREAM_ABORT
        self.queue = deque([*running, *(work for work in rest if work.kind == "mark")])

    def miss_deadlines(self, now_s: float, *, at_device: int) -> None:
        """Runs whose deadline has passed are stopped at the device and dropped elsewhere."""
        running = list(self.queue)[:at_device]
        late = [work for work in self.queue if work.deadline_s <= now_s]
        for work in sorted(late, key=lambda work: work.deadline_s):
            if work in running:
                work.stopped_by = work.stopped_by or Status.ACL_ERROR_RT_TASK_TIMEOUT
            else:
                self.queue.remove(work)
                self.fail(work, Status.ACL_ERROR_RT_TASK_TIMEOUT)


@dataclass
class ModelSession:
    """Expected resources of a session."""

    name: str
    buffers: dict[int, bytes] = field(default_factory=dict[int, bytes])
    executors: dict[int, ModelExecutor] = field(default_factory=dict[int, ModelExecutor])
    streams: dict[int, ModelStream] = field(default_factory=lambda: {0: ModelStream()})
    events: dict[int, int] = field(default_factory=dict[int, int])
    dead: dict[str, list[int]] = field(
        default_factory=lambda: {"buffer": [], "executor": [], "stream": [], "event": []}
    )
    last: dict[str, int] = field(
        default_factory=lambda: {"buffer": 0, "executor": 0, "stream": 0, "event": 0}
    )

    reached: set[int] = field(default_factory=lambda: {0})

    def advance(self) -> None:
        """Lets streams pass the marks and the finished waits at their heads."""
        moved = True
        while moved:
            moved = False
            for stream in self.streams.values():
                while stream.queue and stream.queue[0].kind != "run":
                    work = stream.queue[0]
                    if work.kind == "wait" and work.subject not in self.reached:
                        break
                    self.reached.add(work.subject)
                    stream.queue.popleft()
                    moved = True

    def claim(self, kind: str, handle: int) -> None:
        assert handle > self.last[kind], f"{kind} handle {handle} was given out before"
        self.last[kind] = handle

    def bury(self, kind: str, handle: int) -> None:
        self.dead[kind].append(handle)

    @property
    def queued(self) -> int:
        return sum(len(stream.queue) for stream in self.streams.values())


def image_call(source: int, target: int) -> Im2colBackward:
    """Columns (4, 4) of 2x2 blocks summed into an image (1, 3, 3)."""
    return Im2colBackward(
        grad_output=Tensor(shape=(4, 4), dtype=DataType.FLOAT, buffer=source),
        input_size=(3, 3),
        kernel_size=(2, 2),
        dilation=(1, 1),
        padding=(0, 0),
        stride=(1, 1),
        out=Tensor(shape=(1, 3, 3), dtype=DataType.FLOAT, buffer=target),
    )
