"""A session: a lease on one virtual device, and everything that lives on it."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from typing_extensions import override

from opserve.v1 import event_service_pb2 as event_pb2
from opserve.v1 import session_service_pb2 as session_pb2
from opserve.v1 import stream_service_pb2 as stream_pb2
from opserve.v1.command_service_pb2 import Command, CommandResult
from opserve.v1.memory_service_pb2 import AllocateRequest
from opserve_client import runtime_async
from opserve_client._async.benchmark import benchmark
from opserve_client._async.connection import AsyncConnection
from opserve_client._async.memory import AsyncBuffer, AsyncTensor
from opserve_client._async.run import run
from opserve_client._async.session_calls import AsyncSessionCalls
from opserve_client._async.session_opener import AsyncSessionOpener
from opserve_client._async.streams import AsyncEvent, AsyncExecutor, AsyncPlan, AsyncStream
from opserve_client.arguments import (
    DETERMINISTIC_LEVELS,
    DeterministicLevelName,
    at_least_one,
    choice,
    int64,
    int64s,
    lasting_ms,
    session_object,
    size_to_allocate,
)
from opserve_client.arguments import array as array_of
from opserve_client.benchmark import Benchmark
from opserve_client.call_shapes import remember, shape_of
from opserve_client.chrome_trace import chrome_trace
from opserve_client.data_types import (
    DTypeLike,
    FormatLike,
    data_type_of,
    format_named,
    format_of_rank,
    numpy_dtype,
)
from opserve_client.device import device_of
from opserve_client.errors import (
    OpserveError,
    QuotaExceeded,
    ServiceUnreachable,
    is_transient,
    session_lost,
)
from opserve_client.handles import Handles
from opserve_client.operators import (
    OperatorCall,
    ResultT_co,
    check_owners,
    device_tensors,
    get_workspace_size_request,
    is_repeatable,
    plain,
    tensor_fields,
)
from opserve_client.recovery import UNREACHABLE_ATTEMPTS
from opserve_client.rule_warnings import warn_of
from opserve_client.run_batches import first_error
from opserve_client.shared_memory import SharedMemory
from opserve_client.tensors import TensorSpec, span_bytes
from opserve_client.wire import methods
from opserve_client.wire.json_messages import Json
from opserve_kernels.array_like import ArrayLike
from opserve_kernels.status import Status

_BEATS_PER_LEASE = 3
"""A lease outlasts one lost heartbeat."""


class AsyncSession:
    """A lease on one device. `client.open_session` returns one; closing it frees all its objects.

    A heartbeat in the background renews the lease until the session is closed.

    Attributes:
        name: The session's name, a secret: it grants access to the session.
        device: The leased device.
        lease_s: Seconds without any call after which the service closes the session.
        accuracy: Error bound of every result: "direct" or "fast".
        documented_rules: Answer to a call that breaks a rule of the vendor's page alone: "error" or
            "warn".
        default_stream: Stream 0.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        opened: session_pb2.OpenSessionResponse | session_pb2.GetSessionResponse,
        *,
        last: Handles,
        opener: AsyncSessionOpener | None,
    ) -> None:
        self._closed = False
        self._connection = connection
        self._opener = opener
        self._reopen_lock = runtime_async.Lock()
        self._begin(opened, last)

    def _begin(
        self,
        opened: session_pb2.OpenSessionResponse | session_pb2.GetSessionResponse,
        last: Handles,
    ) -> None:
        self.name, self.device = opened.session, device_of(opened.device)
        self.lease_s = opened.lease_s
        self.accuracy, self.documented_rules = opened.accuracy, opened.documented_rules
        memory = SharedMemory(opened.local_lane, opened.session, opened.local_lane_token)
        self._calls = AsyncSessionCalls(self._connection, opened.session, memory, last=last)
        self.default_stream = AsyncStream(self._calls, handle=0)
        self._heartbeat = runtime_async.Heartbeat(
            self._keep_alive, interval_s=opened.lease_s / _BEATS_PER_LEASE
        )

    @override
    def __repr__(self) -> str:
        state = "closed" if self._closed else self._calls.state
        shown = f"{self._calls.shown_session} on {self.device.name} ({self.device.profile})"
        return f"<{type(self).__name__} {shown}: {state}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except OpserveError as second:
            if error is None:
                raise
            error.add_note(f"The session was not closed and ends with its lease: {second}")

    @property
    def has_other_services(self) -> bool:
        """Whether a new session could be opened at another service of the farm."""
        return self._opener is not None and self._opener.services.has_others

    @property
    def last_handles(self) -> Handles:
        """The greatest handle of each kind so far; the commands of `submit` use greater ones."""
        return self._calls.last

    async def run(self, call: OperatorCall[ResultT_co]) -> ResultT_co:
        """Runs an operator on arrays and frees its device memory.

        An output whose field is None has the inferred shape and dtype. Set the field to a dtype or
        an array to choose others, or to a tensor on the device to write into that tensor. A call
        whose tensors have at most 64 KiB takes one round trip.

        A call on arrays survives a restart of the service for the client's `recovery_s` seconds: it
        opens a new session, whose name and device may differ. In a farm it does so at another
        service, after two attempts. A session that the service ended on purpose is not opened
        again.

        Returns:
            The outputs by the vendor's names, as NumPy arrays; None where one was not requested.

        Raises:
            AclnnError: The operator rejected its arguments; TbeError or DeconvError in its family.
            ExecutionFailed: The kernel failed.
            SessionLost: 107017, the session is gone, and the call uses tensors or buffers of it, or
                the service ended it: `ended` is the reason.
            ServiceUnreachable: 507901, the service was unreachable for longer than `recovery_s`.
        """
        pauses = self._connection.recovery_pauses_s()
        failures = 0
        while True:
            calls = self._calls
            try:
                if calls.lost is not None and self._can_repeat(call):
                    await self._reopen(calls)
                return await run(self._calls, call)
            except OpserveError as error:
                again = is_transient(error) and self._can_repeat(call)
                failures += isinstance(error, ServiceUnreachable)
                if again and failures >= UNREACHABLE_ATTEMPTS and self.has_other_services:
                    calls.lost = calls.lost or session_lost()
                # The recovery time counts pauses only, so a slow attempt does not use it up.
                pause_s = next(pauses, None) if again else None
                if pause_s is None:
                    raise
            await self._connection.pause(pause_s)

    async def benchmark(
        self,
        call: OperatorCall[Any],
        *,
        warmup: int = 3,
        repeats: int = 10,
        min_repeat_ms: float = 0.0,
        flush_cache: bool = False,
    ) -> Benchmark:
        """Measures an operator on the device: plans and uploads it once, then runs it repeatedly.

        Args:
            call: The operator, with arrays or tensors on the device; outputs as in `run`.
            warmup: Runs before the first sample, at least 1.
            repeats: Number of samples, at least 1.
            min_repeat_ms: Least device time of a sample in milliseconds. A sample is the mean of as
                many runs as this time needs.
            flush_cache: Whether each run starts with cold caches. Before each run, the worker reads
                memory of twice its last-level cache, outside the measured time, and keeps that
                memory.

        Returns:
            Kernel times on the device in milliseconds, without queue and network.

        Raises:
            AclnnError: The operator rejected its arguments; TbeError or DeconvError in its family.
            ExecutionFailed: The kernel failed.
        """
        return await benchmark(
            self._calls,
            call,
            warmup=at_least_one(warmup, parameter="warmup"),
            repeats=at_least_one(repeats, parameter="repeats"),
            min_repeat_ms=lasting_ms(min_repeat_ms, parameter="min_repeat_ms"),
            flush_cache=flush_cache,
        )

    async def get_workspace_size(self, call: OperatorCall[ResultT_co]) -> AsyncPlan:
        """Checks and plans a call whose tensors are on the device: phase one.

        Returns:
            The plan: the bytes of workspace that phase two needs, and the executor.

        Raises:
            AclnnError: 161001 a null pointer; 161002 any other broken rule, or a tensor field that
                holds an array: upload it first. TbeError or DeconvError in the operator's family.
            AclrtError: 107017, a tensor belongs to another session.
        """
        check_owners(call, self._calls)
        shape = shape_of(call)
        request = None if shape is None else self._calls.requests.get(shape)
        if request is None:
            call = plain(call)
            request = get_workspace_size_request(call, device_tensors(call), session=self.name)
            remember(self._calls.requests, shape, request)
        command = Command(get_workspace_size=request)
        planned = await self._calls.make(methods.GET_WORKSPACE_SIZE, command)
        executor = AsyncExecutor(
            self._calls, handle=planned.executor, tensor_fields=tensor_fields(call)
        )
        warnings = warn_of(planned.warnings)
        return AsyncPlan(
            workspace_size=planned.workspace_size, executor=executor, warnings=warnings
        )

    async def allocate(self, size_bytes: int) -> AsyncBuffer:
        """Allocates size_bytes bytes of device memory; the content is undefined.

        Raises:
            AclrtError: 100000, the size is 0 or no integer; 207001, out of memory.
        """
        size = size_to_allocate(size_bytes)
        command = Command(allocate=AllocateRequest(session=self.name, size_bytes=size))
        made = await self._calls.make(methods.ALLOCATE, command)
        return AsyncBuffer(self._calls, handle=made.buffer, size_bytes=made.size_bytes)

    def buffer(self, handle: int, *, size_bytes: int) -> AsyncBuffer:
        """Returns an existing buffer of a resumed session, without a call to the service.

        Args:
            handle: Handle of the buffer: `buffer.handle` in the program that allocated it.
            size_bytes: Size of the buffer in bytes.
        """
        return AsyncBuffer(self._calls, handle=handle, size_bytes=size_bytes)

    async def upload(self, array: ArrayLike, *, format: FormatLike | None = None) -> AsyncTensor:  # noqa: A002
        """Copies an array of any shape to a new tensor on the device.

        Args:
            array: An array of any library, such as a tensor of PyTorch in host memory, or numbers
                in lists. BF16 elements have the dtype `ml_dtypes.bfloat16` or `torch.bfloat16`.
            format: Meaning of the dimensions; None means the format that a call gives its arrays.

        Raises:
            AclnnError: 161002, opserve has no such dtype or format.
            AclrtError: 207001, out of memory.
        """
        elements = array_of(array, parameter="array")
        tensor = await self.empty(elements.shape, elements.dtype, format=format)
        await tensor.upload(np.asarray(elements, dtype=numpy_dtype(tensor.spec.dtype)))
        return tensor

    async def empty(
        self,
        shape: Sequence[int],
        dtype: DTypeLike,
        *,
        format: FormatLike | None = None,  # noqa: A002  the vendor's word
    ) -> AsyncTensor:
        """Allocates a contiguous tensor with undefined elements.

        Args:
            shape: Dimensions.
            dtype: "float32", "FLOAT", a NumPy dtype, ml_dtypes.bfloat16, a value of aclDataType ...
            format: Meaning of the dimensions; None means the format that a call gives its arrays.

        Raises:
            AclnnError: 161002, opserve has no such dtype or format, or a dimension is negative.
            AclrtError: 207001, out of memory.
        """
        described = self.tensor(None, shape, dtype, format=format)
        # The service rejects an allocation of 0 bytes, and an empty tensor has 0 bytes.
        buffer = await self.allocate(max(1, span_bytes(described.spec)))
        return self.tensor(buffer, shape, dtype, format=format)

    def tensor(  # noqa: PLR0913  the arguments of aclCreateTensor
        self,
        buffer: AsyncBuffer | None,
        shape: Sequence[int],
        dtype: DTypeLike,
        *,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        format: FormatLike | None = None,  # noqa: A002  the vendor's word
        storage_shape: Sequence[int] | None = None,
    ) -> AsyncTensor:
        """Returns a view of a buffer (aclCreateTensor); the service checks it in a call.

        Args:
            buffer: The memory. None is a null pointer, which `set_tensor_buffer` replaces before
                the call is executed.
            shape: View dimensions.
            dtype: "float32", "FLOAT", a NumPy dtype, ml_dtypes.bfloat16, a value of aclDataType ...
            strides: Elements between neighbours, by dimension; None means contiguous.
            offset: Elements from the start of the buffer to the first element.
            format: Meaning of the dimensions; None means the format that a call gives its arrays.
            storage_shape: Dimensions of the storage behind the view; None means the whole buffer.

        Raises:
            AclnnError: 161002, opserve has no such dtype or format, or a value is no integer.
            AclrtError: 107017, the buffer belongs to another session.
        """
        if buffer is not None:
            session_object(buffer, AsyncBuffer, self._calls, parameter="buffer")
        dimensions = int64s(shape, parameter="shape")
        storage = (
            None if storage_shape is None else int64s(storage_shape, parameter="storage_shape")
        )
        spec = TensorSpec(
            shape=dimensions,
            dtype=data_type_of(dtype),
            format=format_of_rank(len(dimensions)) if format is None else format_named(format),
            strides=None if strides is None else int64s(strides, parameter="strides"),
            offset=int64(offset, parameter="offset"),
            storage_shape=storage,
            buffer=0 if buffer is None else buffer.handle,
        )
        return AsyncTensor(self._calls, spec, buffer, format_follows_call=format is None)

    async def create_stream(self) -> AsyncStream:
        """Creates a stream: an ordered queue of work (aclrtCreateStream)."""
        command = Command(create_stream=stream_pb2.CreateStreamRequest(session=self.name))
        made = await self._calls.make(methods.CREATE_STREAM, command)
        return AsyncStream(self._calls, handle=made.stream)

    async def create_event(self) -> AsyncEvent:
        """Creates an event: a marker on streams (aclrtCreateEvent)."""
        command = Command(create_event=event_pb2.CreateEventRequest(session=self.name))
        made = await self._calls.make(methods.CREATE_EVENT, command)
        return AsyncEvent(self._calls, handle=made.event)

    async def submit(self, commands: Sequence[Command]) -> list[CommandResult]:
        """Runs commands in one round trip, in order, up to the first that fails.

        The client assigns a handle to each command that creates an object and has handle 0. To use
        an object in the batch that creates it, set its handle to a number above `last_handles`.

        Args:
            commands: Messages of opserve.v1.command_service_pb2, without session and request_id.

        Returns:
            The answer of each command.

        Raises:
            OpserveError: The error of the failed command: `failed_command` is its position, and
                `results` has the answers before it. Or the error of the whole call.
        """
        _, results = await self._calls.submit(lambda _: commands)
        error = first_error(results)
        if error:
            error.results = tuple(results[:-1])
            error.failed_command = len(error.results)
            raise error
        return results

    async def set_deterministic_level(self, level: DeterministicLevelName) -> None:
        """Sets the bit-for-bit repeatability of results: level 0 to 3 of ACL_OPT_DETERMINISTIC.

        Raises:
            AclrtError: 107000, there is no such level.
        """
        chosen = choice(level, DETERMINISTIC_LEVELS, parameter="level")
        request = session_pb2.SetDeterministicLevelRequest(session=self.name, level=chosen)
        await self._calls.call(methods.SET_DETERMINISTIC_LEVEL, request)
        if self._opener is not None:
            self._opener.deterministic_level = chosen

    async def trace(self) -> dict[str, Json]:
        """Returns the recent work of the session as a JSON object in Chrome's trace format.

        Write it to a file and open the file in Perfetto. Each stream has a thread, and so have
        copies; kernels, waits and copies are slices. The service keeps 256 entries of each stream
        and 1024 copies by default. Copies through mapped memory are missing.
        """
        request = session_pb2.GetTimelineRequest(session=self.name)
        timeline = await self._calls.call(methods.GET_TIMELINE, request)
        return chrome_trace(timeline, process=f"session on {self.device.name}")

    async def close(self) -> None:
        """Ends the session, drops its queued work and frees its memory.

        A session that has already ended is no error.
        """
        if self._closed:
            return
        await self._heartbeat.stop()
        self._calls.forget()
        request = session_pb2.CloseSessionRequest(session=self.name)
        try:
            await self._calls.call(methods.CLOSE_SESSION, request)
        except OpserveError as error:
            if error.code != Status.ACL_ERROR_RT_INVALID_HANDLE:
                raise
        self._closed = True

    def _can_repeat(self, call: OperatorCall[Any]) -> bool:
        is_closing = self._closed or self._connection.closed or self._opener is None
        was_ended = self._calls.lost is not None and not is_transient(self._calls.lost)
        return not (is_closing or was_ended) and is_repeatable(call)

    async def _reopen(self, lost: AsyncSessionCalls) -> None:
        """Opens a new session, once for all calls that found the old one lost."""
        async with self._reopen_lock:
            if self._calls is not lost or self._opener is None:
                return  # another call has opened it
            # Open first: if this fails, the state of the lost session stays, and a retry can start
            # here again.
            self._connection, opened = await self._opener.open()
            await self._heartbeat.stop()
            lost.forget()
            self._begin(opened, Handles())

    async def _keep_alive(self) -> bool:
        """Renews the lease; returns whether the heartbeat goes on."""
        try:
            request = session_pb2.KeepAliveRequest(session=self.name)
            await self._calls.call(methods.KEEP_ALIVE, request)
        except (QuotaExceeded, ServiceUnreachable):
            return not self._connection.closed
        except OpserveError:  # the session is gone: the next call raises SessionLost
            return False
        return True
