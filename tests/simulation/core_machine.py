"""A hypothesis state machine over the core: every step is done to the service and to a model."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from opserve_kernels.status import Status
from opserve_server.core import errors
from opserve_server.core.dispatch import CALLS_OF_A_TENANT
from opserve_server.core.principal import LOCAL, Principal, Scope
from opserve_server.core.service import Service
from opserve_server.pool.device import KernelFailed
from server.core import every_command as c
from server.core.fakes import LIMITS, FakeDevice, HeldCall, make_service
from simulation.choices import WHICH, WHICH_IF_ANY, pick
from simulation.model import (
    HURRY_MS,
    ModelExecutor,
    ModelSession,
    ModelStream,
    ModelWork,
    image_call,
)
from simulation.virtual_time import VirtualTimeLoop

STRANGER = Principal(tenant="stranger", name="nobody", scopes=frozenset({Scope.OPERATE}))
BUFFER_BYTES = 64
QUEUED_WORK_LIMIT = 16
TIMES = st.integers(1, 3)
Answer = TypeVar("Answer")


class CoreMachine(RuleBasedStateMachine):
    """One device that ends calls on a command of the machine, and one session at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.device = FakeDevice(auto=False)
        self.capacity = self.device.slabs.free_bytes
        self.open: ModelSession | None = None
        self.records, self.hurried = 0, 0
        self.aborts: list[tuple[int, asyncio.Task[Any]]] = []
        self.service: Service

    @initialize()
    def start(self) -> None:
        async def make() -> Service:
            return make_service(self.device)

        self.service = self.do(make())

    @override
    def teardown(self) -> None:
        while self.device.held:
            self.device.end(self.device.held[-1])
            self.settle()
        self.do(self.service.stop())
        self.loop.close()
        self.device.slabs.close()
        assert not self.device.attached, "a slab outlives its device"

    # How the machine drives the core

    @property
    def session(self) -> ModelSession:
        assert self.open is not None
        return self.open

    def do(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self.loop.run_until_complete(work)

    def settle(self) -> None:
        async def turns() -> None:
            for _ in range(10):
                await asyncio.sleep(0)

        self.do(turns())

    def run(self, command: c.Command) -> Any:
        answer = self.do(self.service.run(LOCAL, self.session.name, command))
        self.settle()
        return answer

    def at_device(self, stream: int) -> int:
        return sum(held.stream == stream for held in self.device.held)

    # What must hold after every step

    @precondition(lambda self: self.open)
    @invariant()
    def the_device_has_the_calls_that_come_next(self) -> None:
        waiting = 0
        for handle, stream in self.session.streams.items():
            assert self.at_device(handle) <= stream.next_runs, "a call went past what holds it"
            waiting += stream.next_runs - self.at_device(handle)
        assert len(self.device.held) <= CALLS_OF_A_TENANT
        assert len(self.device.held) == CALLS_OF_A_TENANT or not waiting, "the device lacks a call"

    @precondition(lambda self: self.open)
    @invariant()
    def the_device_was_told_to_stop_what_must_stop(self) -> None:
        for handle, stream in self.session.streams.items():
            marked = [held.stopping for held in self.device.held if held.stream == handle]
            running = list(stream.queue)[: len(marked)]
            assert marked == [work.stopped_by is not None for work in running], f"stopped: {marked}"
        for handle, task in self.aborts:
            stopping = any(held.stopping for held in self.device.held if held.stream == handle)
            assert task.done() != stopping, "an abort ends with the last call that it stops"
        self.aborts = [(handle, task) for handle, task in self.aborts if not task.done()]

    @precondition(lambda self: self.open)
    @invariant()
    def events_and_streams_tell_where_they_are(self) -> None:
        for handle, record in self.session.events.items():
            reached = record in self.session.reached
            complete = self.run(c.QueryEvent(event=handle)).complete
            assert complete == reached, f"event complete: {complete}, expected {reached}"
        for handle, stream in self.session.streams.items():
            complete = self.run(c.QueryStream(stream=handle)).complete
            assert complete != bool(stream.queue), f"stream complete: {complete}"

    # Sessions

    @precondition(lambda self: self.open is None)
    @rule()
    def open_session(self) -> None:
        self.open = ModelSession(self.do(self.service.open_session(LOCAL)).session)
        for value in (1, 2, 3):
            self.allocate(value, 0)
        self.plan_call(1, 2, repeatable=False)
        self.plan_call(2, 3, repeatable=True)
        self.create_stream()
        self.create_event()

    @precondition(lambda self: self.open and not self.session.queued)
    @rule()
    def close_session(self) -> None:
        for handle in self.session.buffers:
            self.run(c.Free(buffer=handle))
        self.run(c.Allocate(size_bytes=self.capacity))
        self.do(self.service.close_session(LOCAL, self.session.name))
        self.session_is_gone()

    @precondition(lambda self: self.open and not self.session.queued)
    @rule()
    def let_the_lease_end(self) -> None:
        self.do(asyncio.sleep(LIMITS.lease_default_s + 1))
        self.settle()
        self.session_is_gone()

    def session_is_gone(self) -> None:
        with pytest.raises(errors.HandleNotFound):
            self.run(c.QueryStream())
        assert self.device.slabs.free_bytes == self.capacity, "an ended session holds memory"
        self.open = None

    @precondition(lambda self: self.open)
    @rule()
    def a_stranger_is_answered_as_if_there_were_no_session(self) -> None:
        for name in (self.session.name, "0" * 32):
            with pytest.raises(errors.HandleNotFound) as refusal:
                self.do(self.service.run(STRANGER, name, c.QueryStream()))
            assert refusal.value.message == (
                f"'{name}' is not one of your sessions, or it has ended. Open a new one."
            )

    # Buffers

    @precondition(lambda self: self.open and len(self.session.buffers) < 8)
    @rule(value=st.integers(0, 255), skip=st.integers(0, 2))
    def allocate(self, value: int, skip: int) -> None:
        wanted = self.session.last["buffer"] + skip if skip else 0
        if skip == 1:
            wanted += 1
        made = self.run(c.Allocate(size_bytes=BUFFER_BYTES, buffer=wanted))
        assert wanted in (0, made.buffer)
        self.session.claim("buffer", made.buffer)
        self.run(c.Fill(buffer=made.buffer, size_bytes=BUFFER_BYTES, value=value))
        self.session.buffers[made.buffer] = bytes([value]) * BUFFER_BYTES

    @precondition(lambda self: self.open and self.session.last["buffer"])
    @rule(which=WHICH)
    def a_handle_is_never_given_out_twice(self, which: int) -> None:
        wanted = pick(range(1, self.session.last["buffer"] + 1), which)
        with pytest.raises(errors.InvalidArgument):
            self.run(c.Allocate(size_bytes=BUFFER_BYTES, buffer=wanted))

    @precondition(lambda self: self.open and self.session.buffers)
    @rule(which=WHICH)
    def free(self, which: int) -> None:
        handle = pick(self.session.buffers, which)
        self.run(c.Free(buffer=handle))
        del self.session.buffers[handle]
        self.session.bury("buffer", handle)

    @precondition(lambda self: self.open and self.session.buffers and not self.session.queued)
    @rule(which=WHICH)
    def read(self, which: int) -> None:
        handle = pick(self.session.buffers, which)
        content = self.run(c.Read(buffer=handle, size_bytes=BUFFER_BYTES)).data
        assert content == self.session.buffers[handle]

    @precondition(lambda self: self.open)
    @rule(which=WHICH)
    def dead_handles_are_refused(self, which: int) -> None:
        attempts: dict[str, type[Any]] = {
            "buffer": c.Free,
            "executor": c.Execute,
            "stream": c.QueryStream,
            "event": c.QueryEvent,
        }
        for kind, command in attempts.items():
            if self.session.dead[kind]:
                handle = pick(self.session.dead[kind], which)
                with pytest.raises(errors.OpserveError) as refusal:
                    self.run(command(**{kind: handle}))
                assert isinstance(refusal.value, errors.HandleNotFound), f"dead {kind} found"

    # Executors

    @precondition(lambda self: self.open and len(self.session.buffers) > 1)
    @rule(which=WHICH, to=WHICH, repeatable=st.booleans())
    def plan(self, which: int, to: int, repeatable: bool) -> None:
        source = pick(self.session.buffers, which)
        target = pick([handle for handle in self.session.buffers if handle != source], to)
        self.plan_call(source, target, repeatable=repeatable)

    def plan_call(self, source: int, target: int, *, repeatable: bool) -> None:
        arguments = image_call(source, target)
        planned = self.run(c.GetWorkspaceSize(operator="im2col_backward", arguments=arguments))
        self.session.claim("executor", planned.executor)
        if repeatable:
            self.run(c.SetRepeatable(executor=planned.executor))
        self.session.executors[planned.executor] = ModelExecutor(
            {source, target}, planned.workspace_size, repeatable
        )

    @precondition(
        lambda self: (
            self.open and self.session.executors and self.session.queued < QUEUED_WORK_LIMIT
        )
    )
    @rule(which=WHICH, on=WHICH, times=TIMES, hurried=st.booleans(), marked=WHICH_IF_ANY)
    def execute(self, which: int, on: int, times: int, hurried: bool, marked: int | None) -> None:
        handle, stream = pick(self.session.executors, which), pick(self.session.streams, on)
        for _ in range(times if self.session.executors[handle].repeatable else 1):
            self.execute_once(handle, stream, hurried=hurried)
            if marked is not None and self.session.events:
                self.record_once(pick(self.session.events, marked), stream)

    def execute_once(self, handle: int, stream: int, *, hurried: bool) -> None:
        executor = self.session.executors[handle]
        workspace = 0
        if executor.workspace_size:
            workspace = self.run(c.Allocate(workspace_of=handle)).buffer
            self.session.claim("buffer", workspace)
        work = ModelWork("run", handle)
        timeout_ms = None
        if hurried:
            self.hurried += 1  # so that no two deadlines are the same
            timeout_ms = HURRY_MS + self.hurried
            work.deadline_s = self.loop.time() + timeout_ms / 1000
        command = c.Execute(
            executor=handle, stream=stream, workspace=workspace, timeout_ms=timeout_ms
        )
        if executor.buffers <= self.session.buffers.keys():
            self.run(command)
            self.session.streams[stream].queue.append(work)
            if not executor.repeatable:
                del self.session.executors[handle]
                self.session.bury("executor", handle)
        else:
            with pytest.raises(errors.HandleNotFound):
                self.run(command)
        if workspace:
            self.run(c.Free(buffer=workspace))

    @precondition(lambda self: self.open and self.session.executors)
    @rule(which=WHICH)
    def destroy_executor(self, which: int) -> None:
        handle = pick(self.session.executors, which)
        self.run(c.DestroyExecutor(executor=handle))
        del self.session.executors[handle]
        self.session.bury("executor", handle)

    @precondition(lambda self: self.device.held)
    @rule(which=WHICH, fails=st.booleans())
    def the_device_ends_a_call(self, which: int, fails: bool) -> None:
        first, *rest = self.device.held
        may_end = [first, *(held for held in rest if held.stopping)]
        self.end_call(pick(may_end, which), fails=fails)

    @precondition(lambda self: self.device.held)
    @rule(fails=st.booleans())
    def the_device_ends_all_work(self, fails: bool) -> None:
        while self.device.held:
            self.end_call(self.device.held[0], fails=fails)
            fails = False
        for handle in self.session.streams:
            self.synchronize_stream(handle)

    def end_call(self, held: HeldCall, *, fails: bool) -> None:
        stream = self.session.streams[held.stream]
        place = [other for other in self.device.held if other.stream == held.stream].index(held)
        assert place < len(stream.queue), "the device has a call that was dropped"
        work = stream.queue[place]
        del stream.queue[place]
        if fails:
            stream.fail(work, Status.ACL_ERROR_RT_AICORE_EXCEPTION)
        elif work.stopped_by is not None:
            stream.fail(work, work.stopped_by)
        self.device.finish(held, KernelFailed("planted") if fails else None)
        self.settle()
        self.session.advance()

    @precondition(lambda self: self.open)
    @rule(which=WHICH)
    def abort_stream(self, which: int) -> None:
        handle = pick(self.session.streams, which)
        command = c.AbortStream(stream=handle)
        self.session.streams[handle].abort(at_device=self.at_device(handle))
        task = self.loop.create_task(self.service.run(LOCAL, self.session.name, command))
        self.aborts.append((handle, task))
        self.settle()
        self.session.advance()

    @precondition(lambda self: self.open)
    @rule()
    def deadlines_pass(self) -> None:
        at_device = {handle: self.at_device(handle) for handle in self.session.streams}
        self.loop.advance(2 * HURRY_MS / 1000)
        self.settle()
        for handle, stream in self.session.streams.items():
            stream.miss_deadlines(self.loop.time(), at_device=at_device[handle])
        self.session.advance()

    # Streams and events

    @precondition(lambda self: self.open and len(self.session.streams) < 4)
    @rule()
    def create_stream(self) -> None:
        handle = self.run(c.CreateStream()).stream
        self.session.claim("stream", handle)
        self.session.streams[handle] = ModelStream()

    @precondition(lambda self: self.open and len(self.session.events) < 4)
    @rule()
    def create_event(self) -> None:
        handle = self.run(c.CreateEvent()).event
        self.session.claim("event", handle)
        self.session.events[handle] = 0

    @precondition(lambda self: self.open and self.session.events)
    @rule(which=WHICH, on=WHICH)
    def record(self, which: int, on: int) -> None:
        self.record_once(pick(self.session.events, which), pick(self.session.streams, on))

    def record_once(self, event: int, stream: int) -> None:
        self.records += 1
        self.session.events[event] = self.records
        self.session.streams[stream].queue.append(ModelWork("mark", self.records))
        self.run(c.RecordEvent(event=event, stream=stream))
        self.session.advance()

    @precondition(lambda self: self.open and self.session.events)
    @rule(which=WHICH, on=WHICH)
    def stream_wait(self, which: int, on: int) -> None:
        event, stream = pick(self.session.events, which), pick(self.session.streams, on)
        if record := self.session.events[event]:  # one that was never recorded holds nothing up
            self.session.streams[stream].queue.append(ModelWork("wait", record))
        self.run(c.StreamWaitEvent(stream=stream, event=event))
        self.session.advance()

    @precondition(lambda self: self.open)
    @rule(which=WHICH)
    def synchronize(self, which: int) -> None:
        self.synchronize_stream(pick(self.session.streams, which))

    def synchronize_stream(self, handle: int) -> None:
        stream = self.session.streams[handle]
        command = c.SynchronizeStream(stream=handle)
        if stream.queue:
            waiter = self.loop.create_task(self.service.run(LOCAL, self.session.name, command))
            self.settle()
            assert not waiter.done(), "synchronise returned before the stream's work was done"
            waiter.cancel()
            self.settle()
        elif stream.failed:
            with pytest.raises(errors.ExecutionFailed) as failure:
                self.run(command)
            assert (failure.value.executor, failure.value.status) == stream.failed
            stream.failed = None
        else:
            self.run(command)
