"""The calls of one session: they carry its name, and handles are made one call at a time."""

from collections.abc import Callable, Sequence
from typing import cast

from opserve.v1.command_service_pb2 import Command, CommandResult, SubmitRequest
from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest
from opserve_client import runtime_async
from opserve_client._async.connection import AsyncConnection
from opserve_client.handles import Handles, choose_handle
from opserve_client.wire.methods import SUBMIT, Method, RequestT, ResponseT


class AsyncSessionCalls:
    """A session's way to the service.

    Handles of a kind must grow from call to call, so a call that makes one has the lock until it is
    answered. All of them are chosen here: a lost answer leaves no doubt about the next handle.

    Args:
        connection: The way to the service.
        session: Name of the session.
    """

    def __init__(self, connection: AsyncConnection, session: str) -> None:
        self.session = session
        self.last = Handles()
        self._connection = connection
        self._lock = runtime_async.Lock()

    async def call(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Makes a call that makes no handle; the request names the session."""
        return await self._connection.call(method, request)

    async def make(self, method: Method[RequestT, ResponseT], command: Command) -> ResponseT:
        """Makes a call that makes a handle; the command holds its request."""
        async with self._lock:
            self.last = choose_handle(command, self.last)
            name = command.WhichOneof("command")
            assert name is not None, "the command holds the request"
            request = cast("RequestT", getattr(command, name))
            return await self._connection.call(method, request)

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
        return list((await self._connection.call(SUBMIT, request)).results)

    async def write(self, request: WriteRequest, data: memoryview) -> None:
        """Copies bytes into a buffer."""
        request.session = self.session
        await self._connection.write(request, data)

    async def read(self, request: ReadRequest) -> bytearray:
        """Copies bytes of a buffer to the host."""
        request.session = self.session
        content = bytearray()
        if request.size_bytes:
            async for chunk in self._connection.read(request):
                content += chunk
        return content
