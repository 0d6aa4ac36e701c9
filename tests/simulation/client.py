"""A client of the simulation: acts at random, and checks what it reads."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from opserve_kernels.operators.im2col_backward.schema import Im2colBackward
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType, Tensor
from opserve_server.core.commands import HANDLERS
from opserve_server.core.errors import (
    ExecutionFailed,
    HandleNotFound,
    LimitExceeded,
    OutOfMemory,
    Unavailable,
)
from opserve_server.core.principal import Principal
from opserve_server.core.service import Service
from opserve_server.core.session_request import SessionRequest
from server.core import every_command as c
from simulation.history import Recorded, StreamHistory, Submitted
from simulation.mappings import Mappings
from simulation.watcher import Watcher
from simulation.worker import filled_by

BUFFER_BYTES = 4096
STREAMS = 2
BUFFERS = 3
PAUSE_S = 0.2
LEASE_S = 20.0
HURRIED = 0.1
"""The share of calls that have a deadline."""
LONGEST_DEADLINE_MS = 1000
PASSING = (OutOfMemory, Unavailable)


class Drained(Exception):
    """New work was refused, since the service ends."""


class SessionLost(Exception):
    """The session has ended, by its lease or by another caller."""


def image_call(columns: int, *, source: int, target: int) -> Im2colBackward:
    """2x2 blocks summed into an image of two rows; no two numbers of columns plan alike."""
    return Im2colBackward(
        grad_output=Tensor(shape=(4, columns), dtype=DataType.FLOAT, buffer=source),
        input_size=(2, columns + 1),
        kernel_size=(2, 2),
        dilation=(1, 1),
        padding=(0, 0),
        stride=(1, 1),
        out=Tensor(shape=(1, 2, columns + 1), dtype=DataType.FLOAT, buffer=target),
    )


def full_of(value: int) -> bytes:
    """The content of a buffer that is filled with a byte."""
    return bytes([value]) * BUFFER_BYTES


@dataclass(slots=True, eq=False)
class ClientStream:
    """A stream of a client, its watcher, its buffers, and the byte that fills each."""

    handle: int
    watcher: Watcher
    buffers: list[int] = field(default_factory=list[int])
    content: dict[int, int] = field(default_factory=dict[int, int])
    history: StreamHistory = field(default_factory=StreamHistory)


class Client:
    """Works in one session after another until it has done enough, dies or is cut off.

    Args:
        service: What it talks to.
        principal: Who it is.
        random: Decides what it does.
        name_of: The columns of a call that has no plan yet, and its plan's parameters.
        cut: The chance that an answer is lost, and asked for again.
        mappings: Where memory is kept that it maps.
    """

    def __init__(
        self,
        service: Service,
        principal: Principal,
        *,
        random: Random,
        name_of: Callable[[], tuple[int, tuple[int, ...]]],
        cut: float,
        mappings: Mappings,
    ) -> None:
        self.session = ""
        self.client_streams: list[ClientStream] = []
        self.finished: list[ClientStream] = []
        self._service = service
        self.principal = principal
        self._random = random
        self._name_of = name_of
        self._cut = cut
        self._mappings = mappings
        self._event = 0
        self._record: Recorded | None = None
        self._waiting: asyncio.Task[Any] | None = None

    async def work(self, steps: int) -> None:
        """Does so many things; a session that is lost is replaced by a new one, but in a drain."""
        for _ in range(steps):
            try:
                if not self.session:
                    await self._open()
                await self._random.choice(self._habits())()
            except SessionLost:
                self._lose()
            except Drained:
                return
            await asyncio.sleep(self._random.uniform(0, PAUSE_S))

    async def finish(self) -> None:
        """Waits for all its work, reads everything and closes its session."""
        try:
            if self.session:
                for client_stream in self.client_streams:
                    await self._synchronize(client_stream)
                    await self._read(client_stream)
                await self._close()
                self._forget()
        except SessionLost:
            self._lose()

    def die(self) -> None:
        """Sends nothing any more; its work continues until its lease ends."""
        for client_stream in self.client_streams:
            client_stream.watcher.stop()
        self._forget()

    def cut_off(self) -> None:
        """Loses the answer it waits for."""
        if self._waiting is not None:
            self._waiting.cancel()

    def _habits(self) -> list[Callable[[], Awaitable[None]]]:
        client_stream = self._random.choice(self.client_streams)
        other = self._random.choice(self.client_streams)
        return [
            *[lambda: self._execute(client_stream)] * 8,
            lambda: self._record_event(client_stream),
            lambda: self._hand_over(client_stream, other),
            lambda: self._synchronize(client_stream),
            lambda: self._read(client_stream),
            lambda: self._write(client_stream),
            *[lambda: self._write_mapped(client_stream)] * 2,
            lambda: self._replace_buffer(client_stream),
            lambda: self._abort(client_stream),
        ]

    def _lose(self) -> None:
        assert not self._service.draining, "a drain ended a session that was in use"
        self._forget()

    def _forget(self) -> None:
        self.finished += self.client_streams
        self.session, self.client_streams, self._record = "", [], None

    async def _open(self) -> None:
        was_draining = self._service.draining
        opened = await self._ask(
            lambda request_id: self._service.open_session(
                self.principal, SessionRequest(lease_s=LEASE_S), request_id=request_id
            )
        )
        assert not was_draining, "a service that drains opened a session"
        self.session = opened.session
        self._event = (await self._run(c.CreateEvent())).event
        for _ in range(STREAMS):
            stream = (await self._run(c.CreateStream())).stream
            random = Random(self._random.getrandbits(64))  # noqa: S311  # to be replayed
            watcher = Watcher(self._service, self.principal, self.session, stream, random=random)
            client_stream = ClientStream(stream, watcher)
            self.client_streams.append(client_stream)
            for _ in range(BUFFERS):
                await self._allocate(client_stream)

    async def _allocate(self, client_stream: ClientStream) -> None:
        handle = (await self._run(c.Allocate(size_bytes=BUFFER_BYTES))).buffer
        client_stream.buffers.append(handle)
        await self._fill(client_stream, handle)

    async def _fill(self, client_stream: ClientStream, handle: int) -> None:
        value = self._random.randrange(256)
        await self._run(c.Fill(buffer=handle, size_bytes=BUFFER_BYTES, value=value))
        client_stream.content[handle] = value

    async def _write(self, client_stream: ClientStream) -> None:
        handle, value = self._random.choice(client_stream.buffers), self._random.randrange(256)
        await self._run(c.Write(buffer=handle, data=full_of(value)))
        client_stream.content[handle] = value

    async def _write_mapped(self, client_stream: ClientStream) -> None:
        """Maps a buffer, unless a call computes near it, and writes there if no work uses it."""
        handle, value = self._random.choice(client_stream.buffers), self._random.randrange(256)
        with _losing_a_session():
            exposed = self._service.map_buffer(self.principal, self.session, handle)
        if exposed is not None:
            content = self._mappings.map(exposed)
            if exposed.idle:
                content[:] = full_of(value)
                client_stream.content[handle] = value

    async def _replace_buffer(self, client_stream: ClientStream) -> None:
        """Frees a buffer that queued work may use, and takes a new one."""
        handle = client_stream.buffers.pop(0)
        await self._run(c.Free(buffer=handle))
        await self._allocate(client_stream)

    async def _execute(self, client_stream: ClientStream) -> None:
        """Both phases; the workspace is freed while the call waits for its turn."""
        source, target = self._random.sample(client_stream.buffers, 2)
        columns, name = self._name_of()
        plan = c.GetWorkspaceSize(
            operator="im2col_backward",
            arguments=image_call(columns, source=source, target=target),
        )
        executor = (await self._run(plan)).executor
        workspace = (await self._run(c.Allocate(workspace_of=executor))).buffer
        submitted = Submitted(name, executor)
        client_stream.history.submit(submitted)
        try:
            await self._run(
                c.Execute(executor=executor, workspace=workspace, stream=client_stream.handle)
            )
        except LimitExceeded:
            client_stream.history.take_back(submitted)
        except Drained:
            client_stream.history.take_back(submitted)
            raise
        else:
            client_stream.content[target] = filled_by(full_of(client_stream.content[source]), name)
        if workspace:
            await self._run(c.Free(buffer=workspace))

    def _deadline_ms(self, client_stream: ClientStream) -> int | None:
        if self._random.random() >= HURRIED:
            return None
        client_stream.history.hurry()
        return self._random.randrange(1, LONGEST_DEADLINE_MS)

    async def _record_event(self, client_stream: ClientStream) -> None:
        await self._run(c.RecordEvent(event=self._event, stream=client_stream.handle))
        self._record = client_stream.history.record()

    async def _wait_event(self, client_stream: ClientStream) -> None:
        await self._run(c.StreamWaitEvent(event=self._event, stream=client_stream.handle))
        if self._record is not None:
            client_stream.history.wait(self._record)

    async def _abort(self, client_stream: ClientStream) -> None:
        """Aborts waiting and running calls; the next synchronise reports it."""
        await self._run(c.AbortStream(stream=client_stream.handle))
        client_stream.history.abort()

    async def _hand_over(self, client_stream: ClientStream, other: ClientStream) -> None:
        """Later calls of one stream wait for the other."""
        await self._execute(client_stream)
        await self._execute(client_stream)
        await self._record_event(client_stream)
        await self._wait_event(other)
        await self._execute(other)

    async def _synchronize(self, client_stream: ClientStream) -> None:
        covered = len(client_stream.history.calls)
        failed = 0
        try:
            await self._run(c.SynchronizeStream(stream=client_stream.handle), safe=False)
        except ExecutionFailed as failure:
            failed = failure.executor
            for handle in client_stream.buffers:  # it is unknown what the failed call left
                await self._fill(client_stream, handle)
        at_s = asyncio.get_running_loop().time()
        client_stream.history.synchronised.append((covered, at_s, failed))

    async def _read(self, client_stream: ClientStream) -> None:
        """A read returns the last written bytes, once no failure is left to be reported."""
        await self._synchronize(client_stream)
        for handle in client_stream.buffers:
            content = await self._run(c.Read(buffer=handle, size_bytes=BUFFER_BYTES))
            assert content.data == full_of(client_stream.content[handle]), (
                f"buffer {handle} is wrong"
            )

    async def _close(self) -> None:
        with _losing_a_session():
            await self._service.close_session(self.principal, self.session)

    async def _run(self, command: c.Command, *, safe: bool = True) -> Any:
        session, was_draining = self.session, self._service.draining
        with _losing_a_session():
            result = await self._ask(
                lambda request_id: self._service.run(
                    self.principal, session, command, request_id=request_id
                ),
                safe=safe,
            )
        assert not (was_draining and HANDLERS[type(command)].new_work), f"{command} in a drain"
        return result

    async def _ask(self, call: Callable[[str], Awaitable[Any]], *, safe: bool = True) -> Any:
        """Asks until there is an answer; a lost one is asked for under the same request id."""
        request_id = f"{self._random.getrandbits(128):032x}" if safe else ""
        while True:
            self._waiting = asyncio.ensure_future(call(request_id))
            lost = safe and self._random.random() < self._cut
            await asyncio.wait([self._waiting], timeout=PAUSE_S if lost else None)
            if lost:
                self._waiting.cancel()
                await asyncio.wait([self._waiting])
            if lost or self._waiting.cancelled():
                continue
            error = self._waiting.exception()
            if isinstance(error, Unavailable) and error.status is Status.ACL_ERROR_RT_SOCKET_CLOSE:
                assert self._service.draining
                raise Drained
            if isinstance(error, PASSING):
                await asyncio.sleep(PAUSE_S)
                continue
            return self._waiting.result()


@contextmanager
def _losing_a_session() -> Generator[None]:
    try:
        yield
    except HandleNotFound as gone:
        if gone.parameter != "session":
            raise
        raise SessionLost from gone
