"""Queues of work: streams, the events that mark them, and the executors that run on them."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal

from typing_extensions import override

from opserve.v1 import event_service_pb2 as event_pb2
from opserve.v1 import operator_service_pb2 as operator_pb2
from opserve.v1 import stream_service_pb2 as stream_pb2
from opserve_client._async.memory import AsyncBuffer, AsyncTensor
from opserve_client._async.session_calls import AsyncSessionCalls
from opserve_client.arguments import LARGEST_UINT32, choice, milliseconds, own, unsigned
from opserve_client.errors import invalid_argument
from opserve_client.rule_warnings import DocumentedRuleWarning
from opserve_client.wire import methods

_FAILURE_MODES = {
    "continue": stream_pb2.FAILURE_MODE_CONTINUE,
    "stop": stream_pb2.FAILURE_MODE_STOP,
}


class AsyncExecutor:
    """A planned call. It runs once, unless it is made repeatable.

    Attributes:
        owner: The calls of its session.
        handle: Its number within the session.
        tensor_fields: Names of its tensor arguments, in the vendor's order.
    """

    def __init__(
        self, owner: AsyncSessionCalls, *, handle: int, tensor_fields: tuple[str, ...]
    ) -> None:
        self.owner = owner
        self.handle = handle
        self.tensor_fields = tensor_fields

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.handle}>"

    async def set_repeatable(self) -> None:
        """Lets it run any number of times (aclSetAclOpExecutorRepeatable)."""
        request = operator_pb2.SetRepeatableRequest(
            session=self.owner.session, executor=self.handle
        )
        await self.owner.call(methods.SET_REPEATABLE, request)

    async def set_tensor_buffer(self, tensor: int | str, buffer: AsyncBuffer | AsyncTensor) -> None:
        """Gives a tensor of the call another buffer; its view stays the same (aclSetTensorAddr).

        Args:
            tensor: Name of the tensor's field, or its index among the tensor fields.
            buffer: The buffer, or a tensor for the buffer behind it.

        Raises:
            AclnnError: 161002, no such tensor, one that was null in phase one, a buffer too small.
        """
        index = self._index_of(tensor)
        if isinstance(buffer, AsyncTensor):
            handle = own(buffer, AsyncTensor, self.owner, parameter="buffer").spec.buffer
        else:
            handle = own(buffer, AsyncBuffer, self.owner, parameter="buffer").handle
        request = operator_pb2.SetTensorBufferRequest(
            session=self.owner.session, executor=self.handle, index=index, buffer=handle
        )
        await self.owner.call(methods.SET_TENSOR_BUFFER, request)

    async def destroy(self) -> None:
        """Ends it; queued runs of it still run (aclDestroyAclOpExecutor)."""
        request = operator_pb2.DestroyExecutorRequest(
            session=self.owner.session, executor=self.handle
        )
        await self.owner.call(methods.DESTROY_EXECUTOR, request)

    def _index_of(self, tensor: int | str) -> int:
        if not isinstance(tensor, str):
            return unsigned(tensor, parameter="tensor", most=LARGEST_UINT32)
        if tensor not in self.tensor_fields:
            raise invalid_argument("tensor", tensor, ", ".join(self.tensor_fields))
        return self.tensor_fields.index(tensor)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncPlan:
    """The answer of phase one.

    Attributes:
        workspace_size: Bytes of workspace that phase two needs; exact, may be 0.
        executor: What a stream executes.
        warnings: Broken rules of the vendor's page, in a session whose documented_rules are "warn".
    """

    workspace_size: int
    executor: AsyncExecutor
    warnings: tuple[DocumentedRuleWarning, ...] = ()


class AsyncStream:
    """An ordered queue of work. Make one with session.create_stream.

    Attributes:
        owner: The calls of its session.
        handle: Its number within the session; 0 is the default stream.
    """

    def __init__(self, owner: AsyncSessionCalls, *, handle: int) -> None:
        self.owner = owner
        self.handle = handle

    async def execute(
        self,
        executor: AsyncExecutor,
        workspace: AsyncBuffer | None = None,
        *,
        workspace_offset: int = 0,
        workspace_size: int | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Submits a planned call and returns at once: phase two (aclnnXxx).

        Args:
            executor: The planned call.
            workspace: Memory of plan.workspace_size bytes; None where that is 0.
            workspace_offset: Bytes from the start of the buffer, a multiple of 512.
            workspace_size: Bytes of workspace; None means the rest of the buffer.
            timeout_ms: Milliseconds from now within which it must end, at least 1; past them it is
                dropped, or stopped where it runs, and synchronize tells (107020). None: any time.

        Raises:
            AclnnError: 161001, the workspace is missing; 161002, it is too small or overlaps.
            AclrtError: 107017, the executor ran already or is gone, or is another session's.
        """
        own(executor, AsyncExecutor, self.owner, parameter="executor", hint=": plan.executor")
        if workspace is not None:
            own(workspace, AsyncBuffer, self.owner, parameter="workspace")
        offset = unsigned(workspace_offset, parameter="workspace_offset")
        if workspace_size is not None:
            workspace_size = unsigned(workspace_size, parameter="workspace_size")
        request = operator_pb2.ExecuteRequest(
            session=self.owner.session,
            executor=executor.handle,
            workspace=0 if workspace is None else workspace.handle,
            workspace_offset=offset,
            workspace_size=workspace_size,
            stream=self.handle,
            timeout_ms=milliseconds(timeout_ms, parameter="timeout_ms"),
        )
        await self.owner.call(methods.EXECUTE, request)

    def watch(self, *, after: int = 0) -> AsyncGenerator[stream_pb2.StreamEntry]:
        """What its work came to: what is remembered, and then each entry when it is over.

        Goes on until the stream or the session ends. A gap in the sequence numbers is what the
        service no longer remembered.

        Args:
            after: The last sequence number that is known already, such as where a watch broke off.
        """
        return self.owner.watch(self.handle, after=unsigned(after, parameter="after"))

    async def synchronize(self, *, timeout_ms: int | None = None) -> None:
        """Waits for all work submitted so far, at most timeout_ms or the service's limit.

        Raises:
            ExecutionFailed: The first failure of that work; names its executor. 507015, its
                kernel failed; 107020, its deadline passed; 107023, the stream was aborted.
            AclrtError: 507046, the work took longer.
        """
        limit = milliseconds(timeout_ms, parameter="timeout_ms")
        request = stream_pb2.SynchronizeStreamRequest(
            session=self.owner.session, stream=self.handle, timeout_ms=limit
        )
        await self.owner.call(methods.SYNCHRONIZE_STREAM, request)

    async def query(self) -> bool:
        """Whether all submitted work is done."""
        request = stream_pb2.QueryStreamRequest(session=self.owner.session, stream=self.handle)
        return (await self.owner.call(methods.QUERY_STREAM, request)).complete

    async def abort(self) -> None:
        """Drops its queued work and stops what runs (aclrtStreamAbort); it can be used afterwards.

        Returns when nothing of that work is written any more. Records of events stay. The next
        synchronize tells of a call that was dropped or stopped (107023).
        """
        request = stream_pb2.AbortStreamRequest(session=self.owner.session, stream=self.handle)
        await self.owner.call(methods.ABORT_STREAM, request)

    async def set_failure_mode(self, mode: Literal["continue", "stop"]) -> None:
        """Sets, once, whether work behind a failed call runs or is dropped."""
        request = stream_pb2.SetFailureModeRequest(
            session=self.owner.session,
            stream=self.handle,
            mode=choice(mode, _FAILURE_MODES, parameter="mode"),
        )
        await self.owner.call(methods.SET_FAILURE_MODE, request)

    async def wait_event(self, event: "AsyncEvent") -> None:
        """Makes work submitted from now on wait for the event's latest record."""
        own(event, AsyncEvent, self.owner, parameter="event")
        request = event_pb2.StreamWaitEventRequest(
            session=self.owner.session, stream=self.handle, event=event.handle
        )
        await self.owner.call(methods.STREAM_WAIT_EVENT, request)

    async def destroy(self) -> None:
        """Waits for its work and ends it."""
        request = stream_pb2.DestroyStreamRequest(session=self.owner.session, stream=self.handle)
        await self.owner.call(methods.DESTROY_STREAM, request)


class AsyncEvent:
    """A marker on a stream. Make one with session.create_event.

    Attributes:
        owner: The calls of its session.
        handle: Its number within the session.
    """

    def __init__(self, owner: AsyncSessionCalls, *, handle: int) -> None:
        self.owner = owner
        self.handle = handle

    async def record(self, stream: AsyncStream | None = None) -> None:
        """Marks what is submitted on a stream (or the default stream) so far."""
        if stream is not None:
            own(stream, AsyncStream, self.owner, parameter="stream")
        request = event_pb2.RecordEventRequest(
            session=self.owner.session,
            event=self.handle,
            stream=0 if stream is None else stream.handle,
        )
        await self.owner.call(methods.RECORD_EVENT, request)

    async def query(self) -> bool:
        """Whether its latest record is done; one that was never recorded is."""
        request = event_pb2.QueryEventRequest(session=self.owner.session, event=self.handle)
        return (await self.owner.call(methods.QUERY_EVENT, request)).complete

    async def synchronize(self, *, timeout_ms: int | None = None) -> None:
        """Waits for its latest record, at most timeout_ms or the service's limit (507047)."""
        limit = milliseconds(timeout_ms, parameter="timeout_ms")
        request = event_pb2.SynchronizeEventRequest(
            session=self.owner.session, event=self.handle, timeout_ms=limit
        )
        await self.owner.call(methods.SYNCHRONIZE_EVENT, request)

    async def elapsed_ms_since(self, start: "AsyncEvent") -> float:
        """Milliseconds from the record of `start` to that of this event.

        Raises:
            AclrtError: 507000, one was never recorded; 107006, one is not done.
        """
        own(start, AsyncEvent, self.owner, parameter="start")
        request = event_pb2.EventElapsedTimeRequest(
            session=self.owner.session, start=start.handle, end=self.handle
        )
        return (await self.owner.call(methods.EVENT_ELAPSED_TIME, request)).elapsed_ms

    async def destroy(self) -> None:
        """Ends it."""
        request = event_pb2.DestroyEventRequest(session=self.owner.session, event=self.handle)
        await self.owner.call(methods.DESTROY_EVENT, request)
