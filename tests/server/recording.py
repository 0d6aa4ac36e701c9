"""A Service that does nothing but remember: what an API asked of the core, and a set answer."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from typing_extensions import override

from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import Status
from opserve_kernels.tensor import Tensor
from opserve_server.core import results
from opserve_server.core.accounts import Accounts
from opserve_server.core.commands import Command
from opserve_server.core.copies import CopyEntry, CopyKind
from opserve_server.core.errors import OpserveError
from opserve_server.core.history import (
    HistoryEntry,
    LostEntries,
    News,
    NoNews,
    Outcome,
    WorkKind,
)
from opserve_server.core.info import ServiceAddress, SessionInfo, WaitingInfo
from opserve_server.core.observations import Observe, ignore
from opserve_server.core.principal import Principal
from opserve_server.core.results import Result, Written
from opserve_server.core.series import SeriesPoints
from opserve_server.core.service import (
    DeterministicLevel,
    DeviceInfo,
    FoundSession,
    OpenedSession,
    Service,
)
from opserve_server.core.session_request import ANY_DEVICE, SessionRequest
from opserve_server.core.stream_commands import SynchronizeStream
from opserve_server.core.timeline import StreamTimeline, Timeline
from opserve_server.core.uploads import Uploads
from opserve_server.core.watches import Change
from opserve_server.core.whole_calls import Computed, WholeCall
from server.core import every_command as core

SESSION = "5e5510"
SHARED_MEMORY = "1f" * 16
SHARED_MEMORY_TOKEN = "70" * 16
DEVICE = DeviceInfo(
    name="ascend910b-0",
    profile="ascend910b",
    products="Atlas A2 training",
    operators=("aclnnConvolutionBackward", "aclnnIm2colBackward"),
    memory_bytes=2**30,
    free_memory_bytes=2**29,
    ready=True,
    sessions=3,
    tags=("lab", "quiet"),
    exclusive=True,
    kernel_variant="fma16",
)
ASKED = SessionRequest(
    profile="p",
    tags=("lab", "quiet"),
    lease_s=2.5,
    workspace_limit_bytes=4096,
    priority=3,
    wait_s=60.0,
    exclusive=True,
    exclusive_s=9.0,
    accuracy="fast",
    documented_rules="warn",
    here=True,
)
"""A request without a default in it."""
LISTED = SessionInfo(
    id="5e551011",
    tenant="local",
    device="ascend910b-0",
    profile="ascend910b",
    open_s=3.0,
    expires_in_s=27.0,
    exclusive=False,
    calls=0,
    queued_entries=0,
    working=False,
    memory_bytes=0,
)
WAITING = WaitingInfo(
    id="0badcafe",
    request_id="once",
    tenant="local",
    profile="ascend910b",
    tags=("lab",),
    exclusive=True,
    priority=3,
    position=2,
    waits_for="ascend910b-0: an exclusive session",
    waited_s=1.5,
    left_s=58.5,
)
SERVICES = (
    ServiceAddress(name="a", grpc="grpc://a:1", http="http://a:2"),
    ServiceAddress(name="b", grpc="grpc://b:1", http="http://b:2"),
)
FOUND = FoundSession(
    session=SESSION,
    device=DEVICE,
    lease_s=30.0,
    exclusive_left_s=4.5,
    accuracy="fast",
    documented_rules="warn",
    local_lane=SHARED_MEMORY,
    local_lane_token=SHARED_MEMORY_TOKEN,
    last_buffer=7,
    last_executor=9,
    last_stream=4,
    last_event=5,
    services=SERVICES,
)
WARNING = results.RuleWarning(
    code=161002,
    name="ACLNN_ERR_PARAM_INVALID",
    domain="opserve",
    parameter="bias_sizes",
    given="[4]",
    allowed="[8]",
    sentence="必须与weight一致",
)
RESULTS: dict[type[Command], Result] = {
    core.Allocate: results.Allocated(buffer=7, size_bytes=64),
    core.Write: results.Written(size_bytes=4),
    core.Read: results.Content(data=b"\xfb\xff\xfe"),
    core.GetWorkspaceSize: results.Planned(workspace_size=512, executor=9, warnings=(WARNING,)),
    core.CreateStream: results.StreamCreated(stream=4),
    core.QueryStream: results.Queried(complete=True),
    core.CreateEvent: results.EventCreated(event=5),
    core.QueryEvent: results.Queried(complete=True),
    core.EventElapsedTime: results.Elapsed(elapsed_ms=1.5),
}
"""Answers of the core; every other command is Done."""

ENTRIES = (
    HistoryEntry(
        sequence=4,
        number=5,
        kind=WorkKind.EXECUTE,
        handle=9,
        operator="im2col_backward",
        queued_s=1.5,
        started_s=2.0,
        ended_s=2.25,
        kernel_s=0.125,
        outcome=Outcome.DONE,
        status=None,
    ),
    HistoryEntry(
        sequence=5,
        number=4,
        kind=WorkKind.WAIT,
        handle=7,
        operator="",
        queued_s=1.0,
        started_s=None,
        ended_s=3.0,
        kernel_s=None,
        outcome=Outcome.DROPPED,
        status=Status.ACL_ERROR_RT_STREAM_ABORT,
    ),
)
COPY = CopyEntry(kind=CopyKind.READ, buffer=3, size_bytes=64, started_s=1.0, ended_s=1.125)
TIMELINE = Timeline(
    streams=(StreamTimeline(stream=0, entries=ENTRIES),), copies=(COPY,), kernel_variant="fma16"
)


CHANGES = (
    Change(4, '{"devices":{"ascend910b-0":{"ready":true}},"waiting":{}}'),
    Change(7, '{"devices":{},"waiting":{"0badcafe":null}}'),
)
POINTS = SeriesPoints(
    step_s=1.0,
    end="2026-11-24T04:00:00+00:00",
    series={"device_sessions": {"ascend910b-0": [1.0, 2.5]}},
)


@dataclass
class RecordingService(Service):
    """Remembers calls.

    Attributes:
        asked: Each call as (session, request id, commands).
        others: Each other call by name, with what it was given.
        written: Bytes that `write` received.
        content: What `read` reads.
        error: Raised by every call, where it is set.
        devices: The answer of list_devices.
        observe: Receives observations of calls.
        accounts: That of LOCAL alone.
        uploads: Bodies that arrive.
    """

    asked: list[tuple[str, str, list[Command]]] = field(
        default_factory=list[tuple[str, str, list[Command]]]
    )
    others: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])
    written: bytes = b""
    content: bytes = bytes(range(256)) * 16
    chunk_bytes: int = 1000
    error: Exception | None = None
    observe: Observe = ignore
    devices: list[DeviceInfo] = field(default_factory=lambda: [DEVICE])
    accounts: Accounts = field(default_factory=Accounts)
    uploads: Uploads = field(default_factory=lambda: Uploads(2**20))

    def forget(self) -> None:
        """Is as new again."""
        vars(self).update(vars(RecordingService()))

    @property
    def command(self) -> Command:
        """The only command that was asked for."""
        ((_, _, (command,)),) = self.asked
        return command

    @property
    @override
    def services(self) -> tuple[ServiceAddress, ...]:
        return SERVICES

    @override
    def list_devices(self, principal: Principal) -> list[DeviceInfo]:
        self._fail()
        return self.devices

    @override
    def list_farm(self, principal: Principal) -> list[DeviceInfo]:
        return self.list_devices(principal)

    @override
    async def open_session(
        self,
        principal: Principal,
        request: SessionRequest = ANY_DEVICE,
        *,
        request_id: str = "",
    ) -> OpenedSession:
        self._fail()
        self.others.append(("open_session", request, request_id))
        return OpenedSession(
            session=SESSION,
            device=DEVICE,
            lease_s=request.lease_s or 30.0,
            accuracy="direct",
            documented_rules="error",
            local_lane=SHARED_MEMORY,
            local_lane_token=SHARED_MEMORY_TOKEN,
            services=SERVICES,
        )

    @override
    async def request_session(
        self, principal: Principal, request: SessionRequest, *, request_id: str, tell_after_s: float
    ) -> OpenedSession | WaitingInfo:
        self._fail()
        self.others.append(("ask_for_session", request, request_id, tell_after_s))
        return WAITING

    @override
    def list_waiting(self, principal: Principal) -> list[WaitingInfo]:
        self._fail()
        return [WAITING]

    @override
    def get_session(self, principal: Principal, session: str) -> FoundSession:
        self._fail()
        self.others.append(("get_session", session))
        return FOUND

    @override
    def keep_alive(self, principal: Principal, session: str) -> float:
        self._fail()
        self.others.append(("keep_alive", session))
        return 30.0

    @override
    @contextmanager
    def whole_call(self, principal: Principal, session: str) -> Generator[None]:
        yield

    @override
    async def close_session(self, principal: Principal, session: str) -> None:
        self._fail()
        self.others.append(("close_session", session))

    @override
    def set_deterministic_level(
        self, principal: Principal, session: str, level: DeterministicLevel
    ) -> None:
        self._fail()
        self.others.append(("set_deterministic_level", session, level))

    @override
    async def run(
        self, principal: Principal, session: str, command: Command, *, request_id: str = ""
    ) -> Result:
        self._fail()
        self.asked.append((session, request_id, [command]))
        return RESULTS.get(type(command), results.Done())

    @override
    async def compute(self, principal: Principal, session: str, call: WholeCall) -> Computed:
        planned = await self.run(principal, session, call.plan)
        assert isinstance(planned, results.Planned)
        self.written += b"".join(call.inputs.values())
        await self.run(principal, session, SynchronizeStream())
        operator = OPERATORS[call.plan.operator]
        sizes: dict[int, int] = {}
        for index, name in enumerate(operator.tensor_fields):
            tensor: Tensor | None = getattr(call.plan.arguments, name)
            if tensor is not None and name in operator.outputs:
                sizes[index] = tensor.element_count * tensor.dtype.size_bytes
        outputs = {index: self.content[:size] for index, size in sizes.items()}
        return Computed(outputs=outputs, warnings=planned.warnings)

    @override
    def check_count(self, commands: int) -> None:
        """Takes any number."""

    @override
    async def submit(
        self,
        principal: Principal,
        session: str,
        commands: Sequence[Command],
        *,
        request_id: str = "",
    ) -> list[Result]:
        self.asked.append((session, request_id, list(commands)))
        made = [RESULTS.get(type(command), results.Done()) for command in commands]
        if isinstance(self.error, OpserveError):
            return [*made[:-1], results.Failed(error=self.error)]
        return made

    @override
    def buffer_size(self, principal: Principal, session: str, buffer: int) -> int:
        return len(self.content)

    @override
    async def write(
        self,
        principal: Principal,
        session: str,
        *,
        buffer: int,
        offset: int,
        size_bytes: int,
        chunks: AsyncIterator[bytes | memoryview],
    ) -> Written:
        self._fail()
        self.others.append(("write", session, buffer, offset, size_bytes))
        async for chunk in chunks:
            self.written += chunk
        return Written(size_bytes=len(self.written))

    @override
    async def read(
        self,
        principal: Principal,
        session: str,
        *,
        buffer: int,
        offset: int,
        size_bytes: int,
        form: Callable[[memoryview], bytes] = bytes,
    ) -> AsyncGenerator[bytes]:
        self._fail()
        self.others.append(("read", session, buffer, offset, size_bytes))
        for start in range(offset, offset + size_bytes, self.chunk_bytes):
            end = min(start + self.chunk_bytes, offset + size_bytes)
            yield form(memoryview(self.content)[start:end])

    @override
    def watch_stream(
        self, principal: Principal, session: str, stream: int, *, after: int = 0
    ) -> AsyncGenerator[News]:
        self._fail()
        self.others.append(("watch_stream", session, stream, after))
        return self._news()

    async def _news(self) -> AsyncGenerator[News]:
        for news in (LostEntries(first=1, last=3), NoNews(), *ENTRIES):
            yield news

    @override
    async def watch(self, principal: Principal) -> AsyncGenerator[Change | NoNews]:
        self._fail()
        self.others.append(("watch",))
        for news in (*CHANGES[:1], NoNews(), *CHANGES[1:]):
            yield news

    @override
    def get_series(self, principal: Principal, names: str, *, last_s: int) -> SeriesPoints:
        self._fail()
        self.others.append(("get_series", names, last_s))
        return POINTS

    @override
    def list_sessions(self, principal: Principal) -> list[SessionInfo]:
        self._fail()
        return [LISTED]

    @override
    async def release(self, principal: Principal, session_id: str, *, force: bool) -> None:
        self._fail()
        self.others.append(("release", session_id, force))

    @override
    def cancel_waiting(self, principal: Principal, request_id: str) -> None:
        self._fail()
        self.others.append(("cancel_waiting", request_id))

    @override
    def timeline_of(self, principal: Principal, session_id: str) -> Timeline:
        self._fail()
        self.others.append(("timeline_of", session_id))
        return TIMELINE

    @override
    def timeline(self, principal: Principal, session: str) -> Timeline:
        self._fail()
        self.others.append(("timeline", session))
        return TIMELINE

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error
