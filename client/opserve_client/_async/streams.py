"""Queues of work: streams, the events that mark them, and the executors that run on them."""

from dataclasses import dataclass
from typing import Literal

from typing_extensions import override

from opserve.v1 import event_service_pb2 as event_pb2
from opserve.v1 import operator_service_pb2 as operator_pb2
from opserve.v1 import stream_service_pb2 as stream_pb2
from opserve_client._async.memory import AsyncBuffer, AsyncTensor
from opserve_client._async.session_calls import AsyncSessionCalls
from opserve_client.wire import methods


class AsyncExecutor:
    """A planned call. It runs once, unless it is made repeatable.

    Attributes:
        handle: Its number within the session.
        tensor_fields: Names of its tensor arguments, in the vendor's order.
    """

    def __init__(
        self, calls: AsyncSessionCalls, *, handle: int, tensor_fields: tuple[str, ...]
    ) -> None:
        self._calls = calls
        self.handle = handle
        self.tensor_fields = tensor_fields

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.handle}>"

    async def set_repeatable(self) -> None:
        """Lets it run any number of times (aclSetAclOpExecutorRepeatable)."""
        request = operator_pb2.SetRepeatableRequest(
            session=self._calls.session, executor=self.handle
        )
        await self._calls.call(methods.SET_REPEATABLE, request)

    async def set_tensor_buffer(self, tensor: int | str, buffer: AsyncBuffer | AsyncTensor) -> None:
        """Gives a tensor of the call another buffer; its view stays the same (aclSetTensorAddr).

        Args:
            tensor: Name of the tensor's field, or its index among the tensor fields.
            buffer: The buffer, or a tensor for the buffer behind it.

        Raises:
            ValueError: No tensor field has that name.
            AclnnError: 161002, no such tensor, one that was null in phase one, a buffer too small.
        """
        if isinstance(tensor, str) and tensor not in self.tensor_fields:
            raise ValueError(f"tensor: given {tensor}, allowed {', '.join(self.tensor_fields)}")
        index = self.tensor_fields.index(tensor) if isinstance(tensor, str) else tensor
        handle = buffer.handle if isinstance(buffer, AsyncBuffer) else buffer.spec.buffer
        request = operator_pb2.SetTensorBufferRequest(
            session=self._calls.session, executor=self.handle, index=index, buffer=handle
        )
        await self._calls.call(methods.SET_TENSOR_BUFFER, request)

    async def destroy(self) -> None:
        """Ends it; queued runs of it still run (aclDestroyAclOpExecutor)."""
        request = operator_pb2.DestroyExecutorRequest(
            session=self._calls.session, executor=self.handle
        )
        await self._calls.call(methods.DESTROY_EXECUTOR, request)


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncPlan:
    """The answer of phase one.

    Attributes:
        workspace_size: Bytes of workspace that phase two needs; exact, may be 0.
        executor: What a stream executes.
    """

    workspace_size: int
    executor: AsyncExecutor


class AsyncStream:
    """An ordered queue of work. Make one with session.create_stream.

    Attributes:
        handle: Its number within the session; 0 is the default stream.
    """

    def __init__(self, calls: AsyncSessionCalls, *, handle: int) -> None:
        self._calls = calls
        self.handle = handle

    async def execute(
        self,
        executor: AsyncExecutor,
        workspace: AsyncBuffer | None = None,
        *,
        workspace_offset: int = 0,
        workspace_size: int | None = None,
    ) -> None:
        """Submits a planned call and returns at once: phase two (aclnnXxx).

        Args:
            executor: The planned call.
            workspace: Memory of plan.workspace_size bytes; None where that is 0.
            workspace_offset: Bytes from the start of the buffer, a multiple of 512.
            workspace_size: Bytes of workspace; None means the rest of the buffer.

        Raises:
            AclnnError: 161001, the workspace is missing; 161002, it is too small or overlaps.
            AclrtError: 107017, the executor ran already or is gone.
        """
        request = operator_pb2.ExecuteRequest(
            session=self._calls.session,
            executor=executor.handle,
            workspace=0 if workspace is None else workspace.handle,
            workspace_offset=workspace_offset,
            workspace_size=workspace_size,
            stream=self.handle,
        )
        await self._calls.call(methods.EXECUTE, request)

    async def synchronize(self, *, timeout_ms: int | None = None) -> None:
        """Waits for all work submitted so far, at most timeout_ms or the service's limit.

        Raises:
            ExecutionFailed: The first failure of that work; names its executor.
            AclrtError: 507046, the work took longer.
        """
        request = stream_pb2.SynchronizeStreamRequest(
            session=self._calls.session, stream=self.handle, timeout_ms=timeout_ms
        )
        await self._calls.call(methods.SYNCHRONIZE_STREAM, request)

    async def query(self) -> bool:
        """Whether all submitted work is done."""
        request = stream_pb2.QueryStreamRequest(session=self._calls.session, stream=self.handle)
        return (await self._calls.call(methods.QUERY_STREAM, request)).complete

    async def set_failure_mode(self, mode: Literal["continue", "stop"]) -> None:
        """Sets, once, whether work behind a failed call runs or is dropped."""
        request = stream_pb2.SetFailureModeRequest(
            session=self._calls.session,
            stream=self.handle,
            mode=stream_pb2.FailureMode.Value(f"FAILURE_MODE_{mode.upper()}"),
        )
        await self._calls.call(methods.SET_FAILURE_MODE, request)

    async def wait_event(self, event: "AsyncEvent") -> None:
        """Makes work submitted from now on wait for the event's latest record."""
        request = event_pb2.StreamWaitEventRequest(
            session=self._calls.session, stream=self.handle, event=event.handle
        )
        await self._calls.call(methods.STREAM_WAIT_EVENT, request)

    async def destroy(self) -> None:
        """Waits for its work and ends it."""
        request = stream_pb2.DestroyStreamRequest(session=self._calls.session, stream=self.handle)
        await self._calls.call(methods.DESTROY_STREAM, request)


class AsyncEvent:
    """A marker on a stream. Make one with session.create_event.

    Attributes:
        handle: Its number within the session.
    """

    def __init__(self, calls: AsyncSessionCalls, *, handle: int) -> None:
        self._calls = calls
        self.handle = handle

    async def record(self, stream: AsyncStream | None = None) -> None:
        """Marks what is submitted on a stream (or the default stream) so far."""
        request = event_pb2.RecordEventRequest(
            session=self._calls.session,
            event=self.handle,
            stream=0 if stream is None else stream.handle,
        )
        await self._calls.call(methods.RECORD_EVENT, request)

    async def query(self) -> bool:
        """Whether its latest record is done; one that was never recorded is."""
        request = event_pb2.QueryEventRequest(session=self._calls.session, event=self.handle)
        return (await self._calls.call(methods.QUERY_EVENT, request)).complete

    async def synchronize(self, *, timeout_ms: int | None = None) -> None:
        """Waits for its latest record, at most timeout_ms or the service's limit (507047)."""
        request = event_pb2.SynchronizeEventRequest(
            session=self._calls.session, event=self.handle, timeout_ms=timeout_ms
        )
        await self._calls.call(methods.SYNCHRONIZE_EVENT, request)

    async def elapsed_ms_since(self, start: "AsyncEvent") -> float:
        """Milliseconds from the record of `start` to that of this event.

        Raises:
            AclrtError: 507000, one was never recorded; 107006, one is not done.
        """
        request = event_pb2.EventElapsedTimeRequest(
            session=self._calls.session, start=start.handle, end=self.handle
        )
        return (await self._calls.call(methods.EVENT_ELAPSED_TIME, request)).elapsed_ms

    async def destroy(self) -> None:
        """Ends it."""
        request = event_pb2.DestroyEventRequest(session=self._calls.session, event=self.handle)
        await self._calls.call(methods.DESTROY_EVENT, request)
