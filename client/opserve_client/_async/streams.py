"""Streams, events and executors."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal

from typing_extensions import override

from opserve.v1 import event_service_pb2 as event_pb2
from opserve.v1 import operator_service_pb2 as operator_pb2
from opserve.v1 import stream_service_pb2 as stream_pb2
from opserve_client._async.memory import AsyncBuffer, AsyncTensor
from opserve_client._async.session_calls import AsyncSessionCalls
from opserve_client.arguments import LARGEST_UINT32, choice, milliseconds, session_object, unsigned
from opserve_client.errors import invalid_argument
from opserve_client.rule_warnings import DocumentedRuleWarning
from opserve_client.wire import methods

_FAILURE_MODES = {
    "continue": stream_pb2.FAILURE_MODE_CONTINUE,
    "stop": stream_pb2.FAILURE_MODE_STOP,
}


class AsyncExecutor:
    """A planned call. It runs once, or any number of times after `set_repeatable`.

    Attributes:
        owner: The calls of its session.
        handle: Handle within the session.
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
        """Allows any number of runs (aclSetAclOpExecutorRepeatable)."""
        request = operator_pb2.SetRepeatableRequest(
            session=self.owner.session, executor=self.handle
        )
        await self.owner.call(methods.SET_REPEATABLE, request)

    async def set_tensor_buffer(self, tensor: int | str, buffer: AsyncBuffer | AsyncTensor) -> None:
        """Replaces the buffer of a tensor of the call and keeps its view (aclSetTensorAddr).

        Args:
            tensor: Name of the tensor's field, or its index among the tensor fields.
            buffer: The buffer, or a tensor, which means its buffer.

        Raises:
            AclnnError: 161002, there is no such tensor, it was a null pointer in phase one, or the
                buffer is too small.
            AclrtError: 107017, the buffer belongs to another session.
        """
        index = self._index_of(tensor)
        if isinstance(buffer, AsyncTensor):
            handle = session_object(buffer, AsyncTensor, self.owner, parameter="buffer").spec.buffer
        else:
            handle = session_object(buffer, AsyncBuffer, self.owner, parameter="buffer").handle
        request = operator_pb2.SetTensorBufferRequest(
            session=self.owner.session, executor=self.handle, index=index, buffer=handle
        )
        await self.owner.call(methods.SET_TENSOR_BUFFER, request)

    async def destroy(self) -> None:
        """Destroys the executor; its queued runs still run (aclDestroyAclOpExecutor)."""
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
        executor: The planned call, for `stream.execute`.
        warnings: Broken rules of the vendor's page, in a session whose documented_rules is "warn".
    """

    workspace_size: int
    executor: AsyncExecutor
    warnings: tuple[DocumentedRuleWarning, ...] = ()


class AsyncStream:
    """An ordered queue of work. `session.create_stream` returns one.

    Attributes:
        owner: The calls of its session.
        handle: Handle within the session; 0 is the default stream.
    """

    def __init__(self, owner: AsyncSessionCalls, *, handle: int) -> None:
        self.owner = owner
        self.handle = handle

    @override
    def __repr__(self) -> str:
        place = f"{self.handle} of session {self.owner.shown_session}"
        return f"<{type(self).__name__} {place}: {self.owner.state}>"

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
            workspace: Memory of at least plan.workspace_size bytes; None where that is 0.
            workspace_offset: Bytes from the start of the buffer, a multiple of 512.
            workspace_size: Bytes of workspace; None means the rest of the buffer.
            timeout_ms: Milliseconds from now within which the call must end, at least 1. After
                them the call is dropped or stopped, and `synchronize` raises 107020. None means no
                limit.

        Raises:
            AclnnError: 161001, the workspace is missing; 161002, it is too small or overlaps
                another buffer of the call.
            AclrtError: 107017, the executor has already run, was destroyed, or belongs to another
                session.
        """
        session_object(
            executor, AsyncExecutor, self.owner, parameter="executor", hint=": plan.executor"
        )
        if workspace is not None:
            session_object(workspace, AsyncBuffer, self.owner, parameter="workspace")
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
        """Yields the stream's entries: first those that the service keeps, then each at its end.

        The iteration ends with the stream or the session. A gap in the sequence numbers means that
        the service no longer kept these entries.

        Args:
            after: Only entries with a greater sequence number; to continue a watch, the last one
                received.
        """
        return self.owner.watch(self.handle, after=unsigned(after, parameter="after"))

    async def synchronize(self, *, timeout_ms: int | None = None) -> None:
        """Waits for all work submitted so far.

        Args:
            timeout_ms: Longest wait in milliseconds; None means the service's limit.

        Raises:
            ExecutionFailed: The first failure of that work, with its executor. 507015, the kernel
                failed; 107020, the deadline passed; 107023, the stream was aborted.
            AclrtError: 507046, the work took longer than the wait.
        """
        limit = milliseconds(timeout_ms, parameter="timeout_ms")
        request = stream_pb2.SynchronizeStreamRequest(
            session=self.owner.session, stream=self.handle, timeout_ms=limit
        )
        await self.owner.call(methods.SYNCHRONIZE_STREAM, request)

    async def query(self) -> bool:
        """Returns whether all submitted work is done."""
        request = stream_pb2.QueryStreamRequest(session=self.owner.session, stream=self.handle)
        return (await self.owner.call(methods.QUERY_STREAM, request)).complete

    async def abort(self) -> None:
        """Drops queued work and stops running work (aclrtStreamAbort); the stream stays usable.

        Returns when that work writes no byte any more. Records of events stay. The next
        `synchronize` raises 107023 for a call that was dropped or stopped.
        """
        request = stream_pb2.AbortStreamRequest(session=self.owner.session, stream=self.handle)
        await self.owner.call(methods.ABORT_STREAM, request)

    async def set_failure_mode(self, mode: Literal["continue", "stop"]) -> None:
        """Sets, at most once for a stream, whether work behind a failed call runs or is dropped.

        Raises:
            AclrtError: 107000, there is no such mode, or it was set before.
        """
        request = stream_pb2.SetFailureModeRequest(
            session=self.owner.session,
            stream=self.handle,
            mode=choice(mode, _FAILURE_MODES, parameter="mode"),
        )
        await self.owner.call(methods.SET_FAILURE_MODE, request)

    async def wait_event(self, event: "AsyncEvent") -> None:
        """Makes later work of this stream wait for the event's latest record."""
        session_object(event, AsyncEvent, self.owner, parameter="event")
        request = event_pb2.StreamWaitEventRequest(
            session=self.owner.session, stream=self.handle, event=event.handle
        )
        await self.owner.call(methods.STREAM_WAIT_EVENT, request)

    async def destroy(self) -> None:
        """Waits for the stream's work and destroys the stream."""
        request = stream_pb2.DestroyStreamRequest(session=self.owner.session, stream=self.handle)
        await self.owner.call(methods.DESTROY_STREAM, request)


class AsyncEvent:
    """A marker on a stream. `session.create_event` returns one.

    Attributes:
        owner: The calls of its session.
        handle: Handle within the session.
    """

    def __init__(self, owner: AsyncSessionCalls, *, handle: int) -> None:
        self.owner = owner
        self.handle = handle

    @override
    def __repr__(self) -> str:
        place = f"{self.handle} of session {self.owner.shown_session}"
        return f"<{type(self).__name__} {place}: {self.owner.state}>"

    async def record(self, stream: AsyncStream | None = None) -> None:
        """Records the work submitted so far on a stream; None means the default stream."""
        if stream is not None:
            session_object(stream, AsyncStream, self.owner, parameter="stream")
        request = event_pb2.RecordEventRequest(
            session=self.owner.session,
            event=self.handle,
            stream=0 if stream is None else stream.handle,
        )
        await self.owner.call(methods.RECORD_EVENT, request)

    async def query(self) -> bool:
        """Returns whether the latest record is done; True for an event that was never recorded."""
        request = event_pb2.QueryEventRequest(session=self.owner.session, event=self.handle)
        return (await self.owner.call(methods.QUERY_EVENT, request)).complete

    async def synchronize(self, *, timeout_ms: int | None = None) -> None:
        """Waits for the latest record.

        Args:
            timeout_ms: Longest wait in milliseconds; None means the service's limit.

        Raises:
            AclrtError: 507047, the record took longer than the wait.
        """
        limit = milliseconds(timeout_ms, parameter="timeout_ms")
        request = event_pb2.SynchronizeEventRequest(
            session=self.owner.session, event=self.handle, timeout_ms=limit
        )
        await self.owner.call(methods.SYNCHRONIZE_EVENT, request)

    async def elapsed_ms_since(self, start: "AsyncEvent") -> float:
        """Returns the milliseconds from the record of `start` to the record of this event.

        Raises:
            AclrtError: 507000, an event was never recorded; 107006, a record is not done.
        """
        session_object(start, AsyncEvent, self.owner, parameter="start")
        request = event_pb2.EventElapsedTimeRequest(
            session=self.owner.session, start=start.handle, end=self.handle
        )
        return (await self.owner.call(methods.EVENT_ELAPSED_TIME, request)).elapsed_ms

    async def destroy(self) -> None:
        """Destroys the event."""
        request = event_pb2.DestroyEventRequest(session=self.owner.session, event=self.handle)
        await self.owner.call(methods.DESTROY_EVENT, request)
