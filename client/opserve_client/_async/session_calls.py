"""The calls of one session: they carry its name, and handles are made one call at a time."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import cast

import numpy as np

from opserve.v1.command_service_pb2 import Command, CommandResult, SubmitRequest
from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest
from opserve.v1.stream_service_pb2 import StreamEntry, WatchStreamRequest
from opserve_client import runtime_async
from opserve_client._async.connection import AsyncConnection
from opserve_client.errors import (
    OpserveError,
    SessionLost,
    not_mappable,
)
from opserve_client.handles import Handles, choose_handle
from opserve_client.recovery import noting_loss
from opserve_client.shared_memory import MappedBuffer, SharedMemory, Unmapped
from opserve_client.tensors import Array
from opserve_client.wire.methods import SUBMIT, Method, RequestT, ResponseT
from opserve_kernels.status import Status

SMALL_BYTES = 64 * 2**10
"""Bytes up to which a call is as fast as a mapping."""
_PAUSE_S = 0.005
_PAUSES_LIMIT = 60_000


class AsyncSessionCalls:
    """A session's way to the service.

    Handles of a kind must grow from call to call, so a call that makes one has the lock until it is
    answered. All of them are chosen here: a lost answer leaves no doubt about the next handle.

    Args:
        connection: The way to the service.
        session: Name of the session.
        lane: Its way to memory on the same host.
        last: The greatest handles that the session has used.

    Attributes:
        lost: The error of the first call that found the session gone, and all that belonged to it.
    """

    def __init__(
        self, connection: AsyncConnection, session: str, lane: SharedMemory, *, last: Handles
    ) -> None:
        self.session = session
        self._lane = lane
        self.last = last
        self.lost: SessionLost | None = None
        self._connection = connection
        self._lock = runtime_async.Lock()

    async def call(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Makes a call that makes no handle; the request names the session."""
        with noting_loss(self):
            return await self._connection.call(method, request)

    async def make(self, method: Method[RequestT, ResponseT], command: Command) -> ResponseT:
        """Makes a call that makes a handle; the command holds its request."""
        async with self._lock:
            self.last = choose_handle(command, self.last)
            name = command.WhichOneof("command")
            assert name is not None, "the command holds the request"
            request = cast("RequestT", getattr(command, name))
            return await self.call(method, request)

    async def submit(
        self, build: Callable[[Handles], Sequence[Command]]
    ) -> tuple[list[Command], list[CommandResult]]:
        """Sends a batch that may make handles, built from the last ones; returns what was sent."""
        async with self._lock:
            commands = list(build(self.last))
            for command in commands:
                self.last = choose_handle(command, self.last)
            return commands, await self.send(commands)

    async def send(self, commands: Sequence[Command]) -> list[CommandResult]:
        """Sends a batch that makes no handle."""
        request = SubmitRequest(session=self.session, commands=commands)
        return list((await self.call(SUBMIT, request)).results)

    async def write(self, request: WriteRequest, data: memoryview) -> None:
        """Copies bytes into a buffer."""
        request.session = self.session
        target = await self._mapped(request.buffer, request.offset, len(data))
        if target is None:
            with noting_loss(self):
                await self._connection.write(request, data)
        else:
            await runtime_async.in_thread(np.copyto, target, np.frombuffer(data, np.uint8))

    async def read(self, request: ReadRequest) -> memoryview:
        """Copies bytes of a buffer to the host."""
        request.session = self.session
        if request.size_bytes == 0:
            return memoryview(b"")
        source = await self._mapped(request.buffer, request.offset, request.size_bytes)
        if source is None:
            with noting_loss(self):
                return await self._connection.read(request)
        return (await runtime_async.in_thread(source.copy)).data

    async def watch(self, stream: int, *, after: int) -> AsyncGenerator[StreamEntry]:
        """What a stream's work came to, behind a sequence number and then as it ends.

        One watch of the service's ends in time; the next one goes on behind it, until the stream is
        no more.
        """
        first = True
        while True:
            request = WatchStreamRequest(session=self.session, stream=stream, after=after)
            try:
                with noting_loss(self):
                    async with aclosing(self._connection.watch(request)) as watching:
                        async for news in watching:
                            if news.HasField("entry"):
                                yield news.entry
                            after = news.entry.sequence or news.lost.last
            except OpserveError as error:
                if first or error.code != Status.ACL_ERROR_RT_INVALID_HANDLE:
                    raise
                return
            first = False

    async def map(self, buffer: int) -> Array:
        """The bytes of a buffer in this process, once no queued work uses it."""
        await self._wait_for_work_on(buffer)
        for _ in range(_PAUSES_LIMIT):
            found = await runtime_async.in_thread(self._lane.find, buffer)
            if isinstance(found, MappedBuffer):
                return found.content
            if found is Unmapped.NEVER:
                break
            await runtime_async.sleep(_PAUSE_S)
        raise not_mappable(buffer)

    def forget(self) -> None:
        """Ends the mappings of the session's memory."""
        self._lane.close()

    async def _mapped(self, buffer: int, offset: int, size_bytes: int) -> Array | None:
        """A range of a buffer in this process, once no queued work uses it; None for streams."""
        if size_bytes <= SMALL_BYTES:
            return None
        found = await runtime_async.in_thread(self._lane.find, buffer)
        if not isinstance(found, MappedBuffer) or offset + size_bytes > len(found.content):
            return None
        if not found.idle:
            await self._wait_for_work_on(buffer)
        return found.content[offset : offset + size_bytes]

    async def _wait_for_work_on(self, buffer: int) -> None:
        """Waits as every copy does, by one of no bytes; it also tells of a buffer that is gone."""
        request = WriteRequest(session=self.session, buffer=buffer)
        with noting_loss(self):
            await self._connection.write(request, memoryview(b""))
