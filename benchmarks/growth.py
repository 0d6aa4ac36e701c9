"""Calls beside many objects: p50 at a service that has them over that at a service that has few."""

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count

from rich.progress import track

from benchmarks.measure import Figure, figure, percentile, seconds_of
from benchmarks.raw import RawCalls
from benchmarks.report import Goal
from benchmarks.service_with_keys import ServiceWithKeys, service_with_keys
from benchmarks.small_call import SmallCall
from opserve.v1.command_service_pb2 import Command, SubmitRequest
from opserve.v1.memory_service_pb2 import AllocateRequest, FreeRequest
from opserve.v1.operator_service_pb2 import DestroyExecutorRequest
from opserve.v1.session_service_pb2 import CloseSessionRequest, OpenSessionRequest
from opserve.v1.stream_service_pb2 import CreateStreamRequest, DestroyStreamRequest
from opserve_client import Client
from opserve_client.wire.methods import CLOSE_SESSION, OPEN_SESSION, SUBMIT
from opserve_server.core.tenants import Tenant

SIZES = (1, 10, 100, 1000, 2000)
CALLS = 60
"""Calls of each kind in a round, alternating between both services."""
FLAT = 1.10
LEASE_S = 3600.0
_MOST = str(2 * SIZES[-1])
SETTINGS = {
    "sessions_limit": _MOST,
    "device_sessions_limit": _MOST,
    "buffers_limit": _MOST,
    "executors_limit": _MOST,
    "streams_limit": _MOST,
    "stream_history_limit": _MOST,
    "copy_history_limit": _MOST,
    "request_ids_limit": _MOST,
}
TENANTS = [Tenant(name=f"tenant-{number}") for number in range(SIZES[-1] + 1)]
OWNER = TENANTS[0].name
_AT_ONCE = 500
_BUFFER_BYTES = 512
CALL, ONE_MORE = "call", "one more"


class Place:
    """A session at one of the services, and the objects beside its calls.

    Args:
        service: The service.
        client: The SDK's client, which makes the session.
        calls: Raw calls of the session's tenant.
    """

    def __init__(self, service: ServiceWithKeys, client: Client, calls: RawCalls) -> None:
        self._service = service
        self._calls = calls
        self._session = client.open_session(lease_s=LEASE_S)
        self._call = SmallCall(self._session)
        self._handles = count(100)
        self._opened: list[tuple[str, str]] = []

    def close(self) -> None:
        """Closes all sessions, and so frees everything."""
        for tenant, session in self._opened:
            with self._calls_of(tenant) as calls:
                calls.call(CLOSE_SESSION, CloseSessionRequest(session=session))
        self._session.close()

    def call(self) -> None:
        self._call.run(self._calls)

    def open_sessions(self, number: int) -> None:
        self._open([OWNER] * number)

    def open_sessions_of_tenants(self, number: int) -> None:
        begin = len(self._opened) + 1
        self._open([tenant.name for tenant in TENANTS[begin : begin + number]])

    def open_and_close(self) -> None:
        opened = _open(self._calls)
        self._calls.call(CLOSE_SESSION, CloseSessionRequest(session=opened))

    def make(self, command: "Callable[[int], Command]", number: int) -> None:
        """Makes objects, in few round trips."""
        for _ in range(0, number, _AT_ONCE):
            made = min(number, _AT_ONCE)
            self._submit([command(next(self._handles)) for _ in range(made)])
            number -= made

    def make_and_end(
        self, make: "Callable[[int], Command]", end: "Callable[[int], Command]"
    ) -> None:
        handle = next(self._handles)
        self._submit([make(handle), end(handle)])

    def plan(self, handle: int) -> Command:
        return Command(get_workspace_size=self._call.plan(handle))

    def _open(self, tenants: Sequence[str]) -> None:
        # A connection each, which closes: the service limits those that stay open.
        for tenant in tenants:
            with self._calls_of(tenant) as calls:
                self._opened.append((tenant, _open(calls)))

    def _calls_of(self, tenant: str) -> RawCalls:
        return RawCalls(self._service.addresses.rest, api_key=self._service.keys[tenant])

    def _submit(self, commands: Sequence[Command]) -> None:
        request = SubmitRequest(session=self._session.name, commands=commands)
        results = self._calls.call(SUBMIT, request).results
        assert not results[-1].HasField("error"), results[-1].error


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of objects.

    Attributes:
        name: Its name.
        add: Adds a number of objects.
        one_more: A call that makes one more object and ends it; None where nothing ends it.
        reason: Reason for growth beyond FLAT; empty where there is none.
    """

    name: str
    add: Callable[[Place, int], None]
    one_more: Callable[[Place], None] | None
    reason: str = ""


def _allocate(handle: int) -> Command:
    return Command(allocate=AllocateRequest(buffer=handle, size_bytes=_BUFFER_BYTES))


def _free(handle: int) -> Command:
    return Command(free=FreeRequest(buffer=handle))


def _destroy_executor(handle: int) -> Command:
    return Command(destroy_executor=DestroyExecutorRequest(executor=handle))


def _create_stream(handle: int) -> Command:
    return Command(create_stream=CreateStreamRequest(stream=handle))


def _destroy_stream(handle: int) -> Command:
    return Command(destroy_stream=DestroyStreamRequest(stream=handle))


def _add_history(place: Place, number: int) -> None:
    for _ in range(number):
        place.call()


KINDS = (
    Kind(name="open sessions", add=Place.open_sessions, one_more=Place.open_and_close),
    Kind(
        name="tenants with a session",
        add=Place.open_sessions_of_tenants,
        one_more=Place.open_and_close,
    ),
    Kind(
        name="buffers of the session",
        add=lambda place, number: place.make(_allocate, number),
        one_more=lambda place: place.make_and_end(_allocate, _free),
    ),
    Kind(
        name="executors of the session",
        add=lambda place, number: place.make(place.plan, number),
        one_more=lambda place: place.make_and_end(place.plan, _destroy_executor),
    ),
    Kind(
        name="streams of the session",
        add=lambda place, number: place.make(_create_stream, number),
        one_more=lambda place: place.make_and_end(_create_stream, _destroy_stream),
    ),
    Kind(name="calls in the history", add=_add_history, one_more=None),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A call beside growing numbers of objects.

    Attributes:
        kind: The objects.
        what: CALL or ONE_MORE.
        p50_ms: p50 beside few objects, in milliseconds.
        ratios: p50 beside as many objects over that beside few, by their number.
    """

    kind: Kind
    what: str
    p50_ms: float
    ratios: Mapping[int, Figure]

    @property
    def goal(self) -> Goal:
        worst = max(ratio.value for ratio in self.ratios.values())
        text = f"{self.what} beside up to {SIZES[-1]:,} {self.kind.name}: p50 over that beside 1"
        return Goal(goal=text, value=worst, target=FLAT, better="lower")


def measure_growth(*, rounds: int) -> list[Growth]:
    """Returns a row for each kind of objects and call, over HTTP.

    One of two services gets the objects, the other stays as it is. Their calls alternate.
    """
    found: list[Growth] = []
    with _new_places() as new_place, _new_places() as other_place, _cores(0):
        for kind in track(KINDS, description="growth"):
            grown, small = new_place(), other_place()
            found += _measured(kind, grown, small, rounds=rounds)
            grown.close()
            small.close()
    return found


def _measured(kind: Kind, grown: Place, small: Place, *, rounds: int) -> list[Growth]:
    actions: dict[str, Callable[[Place], None]] = {CALL: Place.call}
    if kind.one_more is not None:
        actions[ONE_MORE] = kind.one_more
    kind.add(small, SIZES[0])
    ratios: dict[str, dict[int, Figure]] = {what: {} for what in actions}
    p50s: dict[str, list[float]] = {what: [] for what in actions}
    there = 0
    for size in SIZES:
        kind.add(grown, size - there)
        there = size
        for what, action in actions.items():
            pairs = [_medians(action, grown, small) for _ in range(rounds)]
            ratios[what][size] = figure([beside / alone for beside, alone in pairs])
            p50s[what] += [alone for _, alone in pairs]
    return [
        Growth(kind=kind, what=what, p50_ms=figure(p50s[what]).value * 1e3, ratios=ratios[what])
        for what in actions
    ]


def _medians(action: Callable[[Place], None], *places: Place) -> list[float]:
    """Returns the p50 of an action at each place, in seconds."""
    times = [[seconds_of(lambda: action(place)) for place in places] for _ in range(CALLS)]  # noqa: B023
    return [percentile(column, 50) for column in zip(*times, strict=True)]


def _open(calls: RawCalls) -> str:
    return calls.call(OPEN_SESSION, OpenSessionRequest(lease_s=LEASE_S)).session


@contextmanager
def _cores(index: int) -> Generator[None]:
    """Keeps this process, and those that it starts, on one core until the block ends.

    A client that wakes on the core of one of two services makes its calls slower by a third.
    """
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[index]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def _new_places() -> Generator[Callable[[], Place]]:
    """Runs a service on the last core until the block ends; yields what makes a place of it."""
    with ExitStack() as stack:
        with _cores(-1):
            service = stack.enter_context(service_with_keys(TENANTS, **SETTINGS))
        url, key = service.addresses.rest, service.keys[OWNER]
        client = stack.enter_context(Client(url, api_key=key))
        calls = stack.enter_context(RawCalls(url, api_key=key))
        yield lambda: Place(service, client, calls)
