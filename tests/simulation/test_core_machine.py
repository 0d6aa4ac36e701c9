"""The core's state machine finds nothing, and finds every bug that is planted."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from opserve_server.core import operator_commands
from opserve_server.core.buffers import Buffer
from opserve_server.core.commands import Execute
from opserve_server.core.errors import OpserveError
from opserve_server.core.handles import HandleTable
from opserve_server.core.session import Session
from opserve_server.core.streams import KernelRun, Mark, Stream
from simulation.core_machine import CoreMachine

CLEAN = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
PLANTED = settings(
    CLEAN, max_examples=400, derandomize=True, database=None, phases=[Phase.generate]
)


def test_the_core_behaves_as_its_model() -> None:
    run_state_machine_as_test(CoreMachine, settings=CLEAN)


def leak_a_buffer(patch: pytest.MonkeyPatch) -> None:
    """Memory freed while a call uses it never comes back."""

    def unused_by(self: Buffer, done: "asyncio.Future[None]") -> None:
        self.users.discard(done)

    patch.setattr(Buffer, "_unused_by", unused_by)


def free_under_a_running_call(patch: pytest.MonkeyPatch) -> None:
    """Memory comes back while a call still uses it."""

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

    def fail(self: Stream, work: KernelRun, failure: object) -> None:
        if not self._queue:
            original(self, work, failure)  # type: ignore[arg-type]

    patch.setattr(Stream, "_fail", fail)


def run_an_executor_twice(patch: pytest.MonkeyPatch) -> None:
    """Every executor behaves as a repeatable one."""
    original = operator_commands._execute

    def execute(session: Session, command: Execute) -> None:
        session.executors.get(command.executor).repeatable = True
        original(session, command)

    patch.setattr(operator_commands, "_execute", execute)


def fire_an_event_early(patch: pytest.MonkeyPatch) -> None:
    """An event is complete as soon as it is recorded."""
    original = Stream.submit

    def submit(self: Stream, work: KernelRun | Mark) -> None:
        if isinstance(work, Mark):
            work.record.reach()
        else:
            original(self, work)

    patch.setattr(Stream, "submit", submit)


@pytest.mark.parametrize(
    "plant",
    [
        leak_a_buffer,
        free_under_a_running_call,
        reuse_a_handle,
        lose_an_error,
        run_an_executor_twice,
        fire_an_event_early,
    ],
)
def test_the_machine_finds_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, OpserveError)):
        run_state_machine_as_test(CoreMachine, settings=PLANTED)
