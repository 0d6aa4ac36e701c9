"""The calls of one session, with its name and its handles."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import cast

import numpy as np

from opserve.v1.command_service_pb2 import Command, CommandResult, SubmitRequest
from opserve.v1.memory_service_pb2 import AllocateResponse, ReadRequest, WriteRequest
from opserve.v1.operator_service_pb2 import GetWorkspaceSizeRequest
from opserve.v1.stream_service_pb2 import StreamEntry, WatchStreamRequest
from opserve_client import runtime_async
from opserve_client._async.connection import AsyncConnection
from opserve_client.call_shapes import CallShape
from opserve_client.errors import (
    OpserveError,
    SessionLost,
    not_mappable,
)
from opserve_client.handles import Handles, choose_handle
from opserve_client.recovery import RecordingLoss
from opserve_client.run_batches import WholeCall
from opserve_client.shared_memory import MappedBuffer, SharedMemory, Unmapped
from opserve_client.tensors import Array
from opserve_client.wire.methods import SUBMIT, WATCH_STREAM, Method, RequestT, ResponseT
from opserve_kernels.status import Status

SMALL_BYTES = 64 * 2**10
"""Bytes up to which a call is as fast as a mapping."""
_SHOWN_CHARACTERS = 8
"""As in the logs of a service."""
_PAUSE_S = 0.005
_PAUSES_LIMIT = 60_000
"""Five minutes, the longest wait of a service by default."""


class AsyncSessionCalls:
    """The calls of a session to the service.

    The client chooses all handles, so a lost answer leaves no doubt about the next handle. The
    service requires growing handles of each kind: a call that creates an object holds the lock
    until the service answers, as a later call with a greater handle could otherwise overtake it.

    Args:
        connection: Connection to the service.
        session: Name of the session.
        shared_memory: Mapped memory of a service on the same host.
        last: The greatest handles that the session has used.

    Attributes:
        requests: Requests of phase one by the shapes of their calls.
        whole_calls: Requests of whole calls by their shapes.
        in_steps: Whether the service has no call for whole calls.
        lost: The error of the first call that found the session gone.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        session: str,
        shared_memory: SharedMemory,
        *,
        last: Handles,
    ) -> None:
        self.session = session
        self._shared_memory = shared_memory
        self.last = last
        self.requests: dict[CallShape, GetWorkspaceSizeRequest] = {}
        self.whole_calls: dict[CallShape, WholeCall] = {}
        self.in_steps = False
        self.lost: SessionLost | None = None
        self._connection = connection
        self._lock = runtime_async.Lock()

    @property
    def shown_session(self) -> str:
        """The beginning of the session's name, which as a whole is a secret."""
        return f"{self.session[:_SHOWN_CHARACTERS]}..."

    @property
    def state(self) -> str:
        """Whether the session is known to be gone, for people."""
        return "open" if self.lost is None else "lost"

    async def call(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Sends a request that creates no handle and names the session."""
        with RecordingLoss(self):
            return await self._connection.call(method, request)

    async def make(self, method: Method[RequestT, ResponseT], command: Command) -> ResponseT:
        """Sends the request in a command that creates a handle."""
        async with self._lock:
            self.last = choose_handle(command, self.last)
            name = command.WhichOneof("command")
            assert name is not None, "the command holds the request"
            request = cast("RequestT", getattr(command, name))
            return await self.call(method, request)

    async def submit(
        self, build: Callable[[Handles], Sequence[Command]]
    ) -> tuple[list[Command], list[CommandResult]]:
        """Sends a batch that may create handles.

        Args:
            build: Builds the commands from the last handles, under the lock.

        Returns:
            The commands that were sent, and the answers.
        """
        async with self._lock:
            commands = list(build(self.last))
            for command in commands:
                self.last = choose_handle(command, self.last)
            return commands, await self.send(commands)

    async def send(self, commands: Sequence[Command]) -> list[CommandResult]:
        """Sends a batch that creates no handle."""
        request = SubmitRequest(session=self.session, commands=commands)
        return list((await self.call(SUBMIT, request)).results)

    async def write(
        self, request: WriteRequest, data: memoryview, *, new: AllocateResponse | None = None
    ) -> None:
        """Copies bytes into a buffer.

        Args:
            request: The buffer and the place of the bytes.
            data: The bytes.
            new: The answer to its allocation, where no queued work uses the buffer.
        """
        request.session = self.session
        target = await self._mapped(request.buffer, request.offset, len(data), new)
        if target is None:
            with RecordingLoss(self):
                await self._connection.write(request, data)
        else:
            await runtime_async.in_thread(np.copyto, target, np.frombuffer(data, np.uint8))

    async def read(
        self, request: ReadRequest, *, new: AllocateResponse | None = None
    ) -> memoryview:
        """Copies bytes of a buffer to the host; `new` is as for write.

        A new buffer's bytes are right if a later call of the session succeeds.
        """
        request.session = self.session
        if request.size_bytes == 0:
            return memoryview(b"")
        source = await self._mapped(request.buffer, request.offset, request.size_bytes, new)
        if source is None:
            with RecordingLoss(self):
                return await self._connection.read(request)
        return (await runtime_async.in_thread(source.copy)).data

    async def watch(self, stream: int, *, after: int) -> AsyncGenerator[StreamEntry]:
        """Yields the entries of a stream after a sequence number, and each later one at its end.

        The service ends each watch after a while. The next watch continues after the last entry,
        until the stream is destroyed.
        """
        first = True
        while True:
            request = WatchStreamRequest(session=self.session, stream=stream, after=after)
            try:
                with RecordingLoss(self):
                    async with aclosing(self._connection.watch(WATCH_STREAM, request)) as watching:
                        async for news in watching:
                            if news.HasField("entry"):
                                yield news.entry
                            after = news.entry.sequence or news.lost.last
            except OpserveError as error:
                # An unknown stream is an error in the first watch, and the end of a later one.
                if first or error.code != Status.ACL_ERROR_RT_INVALID_HANDLE:
                    raise
                return
            first = False

    async def map(self, buffer: int) -> Array:
        """Maps a buffer into this process once no queued work uses it.

        A slab cannot be mapped while a call computes in it. The end of such a call is not notified,
        so this method polls.
        """
        await self._wait_for_work_on(buffer)
        for _ in range(_PAUSES_LIMIT):
            found = await runtime_async.in_thread(self._shared_memory.find, buffer)
            if isinstance(found, MappedBuffer):
                return found.content
            if found is Unmapped.NEVER:
                break
            await runtime_async.sleep(_PAUSE_S)
        raise not_mappable(buffer)

    def forget(self) -> None:
        """Ends the mappings of the session's memory."""
        self._shared_memory.close()

    async def _mapped(
        self, buffer: int, offset: int, size_bytes: int, new: AllocateResponse | None
    ) -> Array | None:
        """Maps a range of a buffer once no queued work uses it; None: send the bytes by stream.

        Of a new buffer, the caller knows that none does.
        """
        if size_bytes <= SMALL_BYTES:
            return None
        if new is not None:
            there = self._shared_memory.find_new(new.slab, new.offset, new.size_bytes)
            if there is not None and offset + size_bytes <= len(there):
                return there[offset : offset + size_bytes]
        found = await runtime_async.in_thread(self._shared_memory.find, buffer)
        if not isinstance(found, MappedBuffer) or offset + size_bytes > len(found.content):
            return None
        if not found.idle:
            await self._wait_for_work_on(buffer)
        return found.content[offset : offset + size_bytes]

    async def _wait_for_work_on(self, buffer: int) -> None:
        """Waits for queued work on a buffer by a write of 0 bytes, which raises if it is freed."""
        request = WriteRequest(session=self.session, buffer=buffer)
        with RecordingLoss(self):
            await self._connection.write(request, memoryview(b""))
