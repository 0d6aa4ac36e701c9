"""A hypothesis state machine over the core: every step is done to the service and to a model."""

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from opserve_kernels.im2col_backward.schema import Im2colBackward
from opserve_kernels.tensor import DataType, Tensor
from opserve_server.core import commands as c
from opserve_server.core.errors import ExecutionFailed, HandleNotFound, InvalidArgument
from opserve_server.core.principal import LOCAL, Principal
from opserve_server.core.service import Service
from opserve_server.pool.device import KernelFailed
from server.core.fakes import LIMITS, FakeDevice, HeldCall, make_service
from simulation.model import ModelExecutor, ModelSession, ModelStream
from simulation.virtual_time import VirtualTimeLoop

STRANGER = Principal(tenant="stranger", name="nobody", scopes=frozenset({"operate"}))
BUFFER_BYTES = 64
QUEUED_WORK_LIMIT = 16
Answer = TypeVar("Answer")


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


class CoreMachine(RuleBasedStateMachine):
    """One device that ends calls when the machine says so, and one session at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.device = FakeDevice(auto=False)
        self.capacity = self.device.slabs.free_bytes
        self.open: ModelSession | None = None
        self.records = 0
        self.reached: set[int] = {0}
        self.service: Service

    @initialize()
    def start(self) -> None:
        async def make() -> Service:
            return make_service(self.device)

        self.service = self.do(make())

    @override
    def teardown(self) -> None:
        while self.device.held:
            self.device.held.pop().done.set_result(None)
            self.settle()
        self.do(self.service.stop())
        self.loop.close()
        self.device.slabs.close()

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

    def claim(self, kind: str, handle: int) -> None:
        assert handle > self.session.last[kind], f"{kind} handle {handle} was given out before"
        self.session.last[kind] = handle

    def bury(self, kind: str, handle: int) -> None:
        self.session.dead[kind].append(handle)

    def pick(self, data: st.DataObject, handles: Collection[int]) -> int:
        return data.draw(st.sampled_from(sorted(handles)))

    def advance_model(self) -> None:
        """Lets streams pass the marks and the finished waits at their heads."""
        moved = True
        while moved:
            moved = False
            for stream in self.session.streams.values():
                while stream.queue and stream.queue[0][0] != "run":
                    kind, record = stream.queue[0]
                    if kind == "wait" and record not in self.reached:
                        break
                    self.reached.add(record)
                    stream.queue.popleft()
                    moved = True

    # What must hold after every step

    @precondition(lambda self: self.open)
    @invariant()
    def the_device_runs_the_head_of_each_stream(self) -> None:
        running = {
            handle
            for handle, stream in self.session.streams.items()
            if stream.queue and stream.queue[0][0] == "run"
        }
        assert {held.stream for held in self.device.held} == running
        assert len(self.device.held) == len(running)

    @precondition(lambda self: self.open)
    @invariant()
    def events_and_streams_tell_where_they_are(self) -> None:
        for handle, record in self.session.events.items():
            assert self.run(c.QueryEvent(event=handle)).complete == (record in self.reached)
        for handle, stream in self.session.streams.items():
            assert self.run(c.QueryStream(stream=handle)).complete == (not stream.queue)

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
        self.everything_freed_comes_back()
        self.do(self.service.close_session(LOCAL, self.session.name))
        self.session_is_gone()

    @precondition(lambda self: self.open and not self.session.queued)
    @rule()
    def let_the_lease_end(self) -> None:
        self.loop.advance(LIMITS.lease_default_s + 1)
        self.settle()
        self.session_is_gone()

    def everything_freed_comes_back(self) -> None:
        for handle in self.session.buffers:
            self.run(c.Free(buffer=handle))
        self.run(c.Allocate(size_bytes=self.capacity))

    def session_is_gone(self) -> None:
        with pytest.raises(HandleNotFound):
            self.run(c.QueryStream())
        assert self.device.slabs.free_bytes == self.capacity, "an ended session holds memory"
        assert not self.device.attached
        self.open = None

    @precondition(lambda self: self.open)
    @rule()
    def a_stranger_is_answered_as_if_there_were_no_session(self) -> None:
        for name in (self.session.name, "0" * 32):
            with pytest.raises(HandleNotFound) as refusal:
                self.do(self.service.run(STRANGER, name, c.QueryStream()))
            assert refusal.value.message == (
                f"session: given {name}, allowed an open session of the caller"
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
        self.claim("buffer", made.buffer)
        self.run(c.Fill(buffer=made.buffer, size_bytes=BUFFER_BYTES, value=value))
        self.session.buffers[made.buffer] = bytes([value]) * BUFFER_BYTES

    @precondition(lambda self: self.open and self.session.last["buffer"])
    @rule(data=st.data())
    def a_handle_is_never_given_out_twice(self, data: st.DataObject) -> None:
        wanted = data.draw(st.integers(1, self.session.last["buffer"]))
        with pytest.raises(InvalidArgument):
            self.run(c.Allocate(size_bytes=BUFFER_BYTES, buffer=wanted))

    @precondition(lambda self: self.open and self.session.buffers)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        handle = self.pick(data, self.session.buffers)
        self.run(c.Free(buffer=handle))
        del self.session.buffers[handle]
        self.bury("buffer", handle)

    @precondition(lambda self: self.open and self.session.buffers and not self.session.queued)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        handle = self.pick(data, self.session.buffers)
        content = self.run(c.Read(buffer=handle, size_bytes=BUFFER_BYTES)).data
        assert content == self.session.buffers[handle]

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def dead_handles_are_refused(self, data: st.DataObject) -> None:
        attempts: dict[str, type[Any]] = {
            "buffer": c.Free,
            "executor": c.Execute,
            "stream": c.QueryStream,
            "event": c.QueryEvent,
        }
        for kind, command in attempts.items():
            if self.session.dead[kind]:
                handle = self.pick(data, self.session.dead[kind])
                with pytest.raises(HandleNotFound):
                    self.run(command(**{kind: handle}))

    # Executors

    @precondition(lambda self: self.open and len(self.session.buffers) > 1)
    @rule(data=st.data(), repeatable=st.booleans())
    def plan(self, data: st.DataObject, repeatable: bool) -> None:
        source = self.pick(data, self.session.buffers)
        target = self.pick(data, self.session.buffers.keys() - {source})
        self.plan_call(source, target, repeatable=repeatable)

    def plan_call(self, source: int, target: int, *, repeatable: bool) -> None:
        arguments = image_call(source, target)
        planned = self.run(c.GetWorkspaceSize(operator="im2col_backward", arguments=arguments))
        self.claim("executor", planned.executor)
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
    @rule(data=st.data(), times=st.integers(1, 3))
    def execute(self, data: st.DataObject, times: int) -> None:
        handle = self.pick(data, self.session.executors)
        stream = self.pick(data, self.session.streams)
        for _ in range(times if self.session.executors[handle].repeatable else 1):
            self.execute_once(handle, stream)

    def execute_once(self, handle: int, stream: int) -> None:
        executor = self.session.executors[handle]
        workspace = 0
        if executor.workspace_size:
            workspace = self.run(c.Allocate(workspace_of=handle)).buffer
            self.claim("buffer", workspace)
        command = c.Execute(executor=handle, stream=stream, workspace=workspace)
        if executor.buffers <= self.session.buffers.keys():
            self.run(command)
            self.session.streams[stream].queue.append(("run", handle))
            if not executor.repeatable:
                del self.session.executors[handle]
                self.bury("executor", handle)
        else:
            with pytest.raises(HandleNotFound):
                self.run(command)
        if workspace:
            self.run(c.Free(buffer=workspace))

    @precondition(lambda self: self.open and self.session.executors)
    @rule(data=st.data())
    def destroy_executor(self, data: st.DataObject) -> None:
        handle = self.pick(data, self.session.executors)
        self.run(c.DestroyExecutor(executor=handle))
        del self.session.executors[handle]
        self.bury("executor", handle)

    @precondition(lambda self: self.device.held)
    @rule(data=st.data(), fails=st.booleans())
    def the_device_ends_a_call(self, data: st.DataObject, fails: bool) -> None:
        self.end_call(data.draw(st.sampled_from(self.device.held)), fails=fails)

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
        _, executor = stream.queue.popleft()
        if fails:
            stream.failed = stream.failed or executor
        self.device.finish(held, KernelFailed("planted") if fails else None)
        self.settle()
        self.advance_model()

    # Streams and events

    @precondition(lambda self: self.open and len(self.session.streams) < 4)
    @rule()
    def create_stream(self) -> None:
        handle = self.run(c.CreateStream()).stream
        self.claim("stream", handle)
        self.session.streams[handle] = ModelStream()

    @precondition(lambda self: self.open and len(self.session.events) < 4)
    @rule()
    def create_event(self) -> None:
        handle = self.run(c.CreateEvent()).event
        self.claim("event", handle)
        self.session.events[handle] = 0

    @precondition(lambda self: self.open and self.session.events)
    @rule(data=st.data())
    def record(self, data: st.DataObject) -> None:
        event = self.pick(data, self.session.events)
        stream = self.pick(data, self.session.streams)
        self.records += 1
        self.session.events[event] = self.records
        self.session.streams[stream].queue.append(("mark", self.records))
        self.run(c.RecordEvent(event=event, stream=stream))
        self.advance_model()

    @precondition(lambda self: self.open and self.session.events)
    @rule(data=st.data())
    def stream_wait(self, data: st.DataObject) -> None:
        event = self.pick(data, self.session.events)
        stream = self.pick(data, self.session.streams)
        self.session.streams[stream].queue.append(("wait", self.session.events[event]))
        self.run(c.StreamWaitEvent(stream=stream, event=event))
        self.advance_model()

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def synchronize(self, data: st.DataObject) -> None:
        self.synchronize_stream(self.pick(data, self.session.streams))

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
            with pytest.raises(ExecutionFailed) as failure:
                self.run(command)
            assert failure.value.executor == stream.failed
            stream.failed = 0
        else:
            self.run(command)
