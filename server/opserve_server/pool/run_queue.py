"""Run queue of a worker: the calls of each flow in order, and the selection of the next one."""

from collections.abc import Iterator
from dataclasses import dataclass

from opserve_server.pool.fair_queue import FairQueue
from opserve_server.pool.messages import Run


@dataclass(slots=True, eq=False)
class Task:
    """A call that has not ended.

    Attributes:
        run: The front's message.
        course: Generator that runs it and yields at each pause; None before it begins.
        start_ns: Start of its kernel, nanoseconds of the monotonic clock.
        used_ns: Its device time so far.
        swept_ns: The part of that in which caches were emptied.
    """

    run: Run
    course: Iterator[None] | None = None
    start_ns: int = 0
    used_ns: int = 0
    swept_ns: int = 0


class RunQueue:
    """Calls by flow. The first of each flow may run; flows share the worker by their weights."""

    def __init__(self) -> None:
        self._flows: dict[int, dict[int, Task]] = {}
        self._fair_queue = FairQueue[int]()

    def __bool__(self) -> bool:
        return bool(self._flows)

    def add(self, run: Run) -> None:
        """Adds a call behind those of its flow."""
        self._flows.setdefault(run.flow.number, {})[run.call_id] = Task(run)
        # A flow joins with its first call and leaves with its last one; while idle it saves up no
        # time.
        self._fair_queue.join(run.flow.number)

    def next(self) -> Task:
        """The call that continues or begins; there must be one."""
        return next(iter(self._flows[self._fair_queue.next(self._flows)].values()))

    def find(self, call_id: int) -> Task | None:
        """A call that has not ended."""
        return next((tasks[call_id] for tasks in self._flows.values() if call_id in tasks), None)

    def charge(self, task: Task, used_ns: int) -> None:
        """Charges device time to the flow of a call."""
        task.used_ns += used_ns
        # Also for a call that fails or is cancelled: its time was taken from the other flows.
        self._fair_queue.charge(task.run.flow.number, used_ns, weight=task.run.flow.weight)

    def gives_way(self, task: Task) -> bool:
        """Whether a call should pause for one of another flow."""
        return self._fair_queue.has_had_more(task.run.flow.number)

    def remove(self, task: Task) -> None:
        """Removes a call that ended."""
        number = task.run.flow.number
        del self._flows[number][task.run.call_id]
        if not self._flows[number]:
            del self._flows[number]
            self._fair_queue.leave(number)
