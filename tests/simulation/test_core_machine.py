"""The core's state machine finds nothing, and finds every bug that is planted."""

import asyncio
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis.stateful import run_state_machine_as_test

from opserve_server.core import dispatch, operator_commands
from opserve_server.core.buffers import Buffer
from opserve_server.core.dispatch import Dispatcher, RoundRobin, Source
from opserve_server.core.errors import ExecutionFailed, OutOfMemory, WaitTimedOut
from opserve_server.core.executors import Executor
from opserve_server.core.handles import HandleTable
from opserve_server.core.history import Outcome
from opserve_server.core.operator_commands import Execute
from opserve_server.core.streams import Stream
from opserve_server.core.work import Entry, KernelRun, Mark
from opserve_server.pool.messages import KernelCall
from simulation.core_machine import CoreMachine
from simulation.directed import CLEAN, PLANTED, SEARCH, Planted, by_name, go_through


def test_the_core_behaves_as_its_model() -> None:
    run_state_machine_as_test(CoreMachine, settings=CLEAN)


def leak_a_buffer(patch: pytest.MonkeyPatch) -> None:
    """Memory freed while a call uses it is never released."""

    def unused_by(self: Buffer, done: "asyncio.Future[None]") -> None:
        self.users.discard(done)

    patch.setattr(Buffer, "_unused_by", unused_by)


def free_under_a_running_call(patch: pytest.MonkeyPatch) -> None:
    """Memory is released while a call still uses it."""

    def used_by(self: Buffer, done: "asyncio.Future[None]") -> None:
        del self, done

    patch.setattr(Buffer, "used_by", used_by)


def reuse_a_handle(patch: pytest.MonkeyPatch) -> None:
    """The handle of a removed object is given out again."""

    def remove(self: HandleTable[object], handle: int) -> object:
        item = self.get(handle)
        del self._items[handle]
        self._last = max(self._items, default=0)
        return item

    patch.setattr(HandleTable, "remove", remove)


def lose_an_error(patch: pytest.MonkeyPatch) -> None:
    """A failure with work behind it is forgotten."""
    original = Stream._fail

    def fail(self: Stream, entry: Entry, outcome: Outcome, error: ExecutionFailed) -> None:
        kept = self.error
        original(self, entry, outcome, error)
        if self._queue:
            self.error = kept

    patch.setattr(Stream, "_fail", fail)


def run_an_executor_twice(patch: pytest.MonkeyPatch) -> None:
    """Every executor behaves as a repeatable one."""
    original = operator_commands._kernel_call

    def kernel_call(
        executor: Executor, command: Execute, *, buffer_of: Callable[[int], Buffer]
    ) -> tuple[KernelCall, list[Buffer]]:
        executor.repeatable = True
        return original(executor, command, buffer_of=buffer_of)

    patch.setattr(operator_commands, "_kernel_call", kernel_call)


def fire_an_event_early(patch: pytest.MonkeyPatch) -> None:
    """An event is complete as soon as it is recorded."""
    original = Stream.submit

    def submit(self: Stream, work: KernelRun | Mark) -> None:
        if isinstance(work, Mark):
            work.record.reach()
        else:
            original(self, work)

    patch.setattr(Stream, "submit", submit)


def pass_a_record(patch: pytest.MonkeyPatch) -> None:
    """A call is sent to the device although a record precedes it."""
    original = Stream._advance

    def advance(self: Stream, _: "asyncio.Future[None] | None" = None) -> None:
        self._queue = deque(sorted(self._queue, key=lambda e: isinstance(e.work, Mark)))
        original(self)

    patch.setattr(Stream, "_advance", advance)


def idle_between_calls(patch: pytest.MonkeyPatch) -> None:
    """The device gets a call only when it has none."""
    patch.setattr(dispatch, "CALLS_OF_A_TENANT", 1)


def forget_a_stream(patch: pytest.MonkeyPatch) -> None:
    """A stream never gets its turn."""
    original = RoundRobin.add

    def add(self: RoundRobin, source: Source) -> None:
        if source.handle <= 1:
            original(self, source)

    patch.setattr(RoundRobin, "add", add)


def keep_aborted_calls(patch: pytest.MonkeyPatch) -> None:
    """An abort stops what runs, and leaves what is queued."""

    def drop(self: Stream, kinds: object, *, behind: int, reason: str) -> list[KernelRun]:
        del self, kinds, behind, reason
        return []

    patch.setattr(Stream, "_drop", drop)


def run_on_after_an_abort(patch: pytest.MonkeyPatch) -> None:
    """An abort drops what is queued, and leaves what runs."""

    def stop(self: Dispatcher, entry: Entry) -> None:
        del self, entry

    patch.setattr(Dispatcher, "stop", stop)


def end_an_abort_early(patch: pytest.MonkeyPatch) -> None:
    """An abort does not wait for what it stops."""

    def over(self: Stream) -> "asyncio.Future[None]":
        del self
        future = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future

    patch.setattr(Stream, "over", over)


def ignore_deadlines(patch: pytest.MonkeyPatch) -> None:
    """A deadline passes without notice."""

    def miss(self: Stream, entry: Entry, run: KernelRun) -> None:
        del self, entry, run

    patch.setattr(Stream, "_miss_deadline", miss)


FOUND = (AssertionError, pytest.fail.Exception, OutOfMemory, WaitTimedOut)
BUGS: list[Planted[CoreMachine]] = [
    Planted(
        leak_a_buffer,
        [
            lambda core: core.open_session(),
            lambda core: core.execute(0, 0, 1, hurried=False, marked=None),
            lambda core: core.the_device_ends_all_work(fails=False),
            lambda core: core.close_session(),
        ],
        "size_bytes is 1048576, and 917504 are free on the device now: request less, or free a ",
    ),
    Planted(
        free_under_a_running_call,
        [
            lambda core: core.open_session(),
            lambda core: core.execute(0, 0, 1, hurried=False, marked=None),
            lambda core: core.allocate(value=1, skip=0),
            lambda core: core.the_device_ends_a_call(0, fails=False),
        ],
        "memory of a running call was handed out",
    ),
    Planted(
        reuse_a_handle,
        [
            lambda core: core.open_session(),
            lambda core: core.execute(0, 0, 1, hurried=False, marked=None),
            lambda core: core.allocate(value=0, skip=0),
        ],
        "buffer handle 4 was given out before",
    ),
    Planted(
        lose_an_error,
        [
            lambda core: core.open_session(),
            lambda core: core.execute(0, 0, 1, hurried=False, marked=0),
            lambda core: core.the_device_ends_all_work(fails=True),
        ],
        "DID NOT RAISE .*ExecutionFailed",
    ),
    Planted(
        run_an_executor_twice,
        [
            lambda core: core.open_session(),
            lambda core: core.execute(0, 0, 1, hurried=False, marked=None),
            lambda core: core.dead_handles_are_refused(0),
        ],
        "dead executor found",
    ),
    Planted(
        fire_an_event_early,
        [
            lambda core: core.open_session(),
            lambda core: core.execute(0, 0, 1, hurried=False, marked=0),
        ],
        "event complete: True, expected False",
    ),
    Planted(
        pass_a_record,
        [
            lambda core: core.open_session(),
            lambda core: core.execute(1, 0, 2, hurried=False, marked=0),
        ],
        "a call went past what holds it",
    ),
    Planted(
        idle_between_calls,
        [
            lambda core: core.open_session(),
            lambda core: core.execute(1, 0, 2, hurried=False, marked=None),
        ],
        "the device lacks a call",
    ),
    Planted(
        forget_a_stream,
        [
            lambda core: core.open_session(),
            lambda core: core.create_stream(),
            lambda core: core.execute(0, 2, 1, hurried=False, marked=None),
        ],
        "the device lacks a call",
    ),
    Planted(
        keep_aborted_calls,
        [
            lambda core: core.open_session(),
            lambda core: core.execute(1, 0, 3, hurried=False, marked=None),
            lambda core: core.abort_stream(0),
            lambda core: core.the_device_ends_all_work(fails=False),
        ],
        "the device has a call that was dropped",
    ),
    Planted(
        run_on_after_an_abort,
        [
            lambda core: core.open_session(),
            lambda core: core.execute(0, 0, 1, hurried=False, marked=None),
            lambda core: core.abort_stream(0),
        ],
        r"stopped: \[False\]",
    ),
    Planted(
        end_an_abort_early,
        [
            lambda core: core.open_session(),
            lambda core: core.execute(0, 0, 1, hurried=False, marked=None),
            lambda core: core.abort_stream(0),
        ],
        "an abort ends with the last call that it stops",
    ),
    Planted(
        ignore_deadlines,
        [
            lambda core: core.open_session(),
            lambda core: core.execute(0, 0, 1, hurried=True, marked=None),
            lambda core: core.deadlines_pass(),
        ],
        r"stopped: \[False\]",
    ),
]


@by_name(BUGS)
def test_a_history_finds_nothing_where_no_bug_is_planted(bug: Planted[CoreMachine]) -> None:
    go_through(CoreMachine(), [CoreMachine.start, *bug.steps])


@by_name(BUGS)
def test_a_history_finds_the_bug_that_is_planted(
    bug: Planted[CoreMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(FOUND, match=bug.message):
        go_through(CoreMachine(), [CoreMachine.start, *bug.steps])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_core_behaves_as_its_model_in_many_histories() -> None:
    run_state_machine_as_test(CoreMachine, settings=SEARCH)


@pytest.mark.slow
@pytest.mark.timeout(600)
@by_name(BUGS)
def test_the_search_finds_the_bug_that_is_planted(
    bug: Planted[CoreMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug.plant(monkeypatch)
    with pytest.raises(FOUND):
        run_state_machine_as_test(CoreMachine, settings=PLANTED)
