"""Turns of tenants in the front: many calls of one beside a call of another."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from typing_extensions import override

from opserve.v1.session_service_pb2 import OpenSessionRequest
from opserve.v1.session_service_pb2_grpc import SessionServiceStub
from opserve_server.core.errors import HandleNotFound
from opserve_server.core.info import OpenedSession
from opserve_server.core.observations import CallEnded, Observation
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.session_request import ANY_DEVICE, SessionRequest
from opserve_server.core.time_slices import ITEMS_PER_SLICE, in_slices
from opserve_server.guard import Credentials, FairAdmission
from opserve_server.telemetry.metrics import Metrics
from server.entry_points import EntryPoints, headers, open_entry_points
from server.guards import admitted, service_with_keys
from server.loop_iterations import LoopIterations
from server.recording import RecordingService

MANY = 20
CALLS = ["lab"] * MANY + ["mill"]
EARLY = MANY // 2
"""Places before this one are early, even if an answer takes further iterations."""


async def test_one_call_of_each_tenant_passes_in_each_turn() -> None:
    admission, admitted = FairAdmission(), list[str]()

    async def call(tenant: str) -> None:
        await admission.admitted(tenant, object())
        admitted.append(tenant)

    await asyncio.gather(*map(call, CALLS))
    assert admitted == ["lab", "mill", *["lab"] * (MANY - 1)]


async def test_a_single_tenant_does_not_wait() -> None:
    admission = FairAdmission()
    for _ in range(3):
        with pytest.raises(StopIteration):
            admission.admitted("lab", object()).send(None)
        await asyncio.sleep(0)


async def test_a_call_that_is_answered_in_its_turn_passes_twice_and_no_more() -> None:
    admission, order = FairAdmission(), list[str]()

    async def call(tenant: str, times: int) -> None:
        for _ in range(times):
            await admission.admitted(tenant, tenant)
            order.append(tenant)

    await asyncio.gather(call("lab", 4), call("mill", 1))
    assert order == ["lab", "lab", "mill", "lab", "lab"]


async def test_an_abandoned_request_delays_no_other() -> None:
    admission = FairAdmission()
    waiting = [asyncio.ensure_future(admission.admitted("lab", object())) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    waiting[2].cancel()
    await asyncio.wait(waiting)
    assert [call.cancelled() for call in waiting] == [False, True, True, False, False]
    await test_a_single_tenant_does_not_wait()


async def test_of_a_tenants_long_loops_one_slice_runs_in_each_turn() -> None:
    with_keys, slices = service_with_keys(), list[tuple[str, int]]()
    iterations = LoopIterations()

    async def call(key: str) -> None:
        credentials = Credentials(authorization=f"Bearer {key}", peer=lambda: "192.0.2.1")
        principal = await admitted(with_keys.guard, credentials, Scope.OPERATE)
        async for _ in in_slices(range(3 * ITEMS_PER_SLICE)):
            if not slices or slices[-1] != (principal.tenant, iterations.count):
                slices.append((principal.tenant, iterations.count))

    await asyncio.gather(*(call(with_keys.lab) for _ in range(MANY)), call(with_keys.mill))
    of_lab = Counter(turn for tenant, turn in slices if tenant == "lab")
    assert len(slices) >= 3 * (MANY + 1), "calls of one tenant were sliced together"
    assert max(of_lab.values()) == 1


async def test_calls_begin_in_turns() -> None:
    with_keys, begun = service_with_keys(), list[str]()

    async def call(key: str) -> None:
        credentials = Credentials(authorization=f"Bearer {key}", peer=lambda: "192.0.2.1")
        principal = await admitted(with_keys.guard, credentials, Scope.OPERATE)
        begun.append(principal.tenant)

    await asyncio.gather(*(call(with_keys.lab) for _ in range(MANY)), call(with_keys.mill))
    assert begun == ["lab", "mill", *["lab"] * (MANY - 1)]


@dataclass
class Gate:
    """Holds calls until all are there, and lets them go in one turn of the event loop.

    Attributes:
        fails: Whether they fail then.
        here: How many are there.
        many: Done when the many are.
        open: Done when all are.
    """

    fails: bool
    here: int = 0
    many: asyncio.Event = field(default_factory=asyncio.Event)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def admitted(self) -> None:
        self.here += 1
        if self.here == MANY:
            self.many.set()
        if self.here == len(CALLS):
            asyncio.get_running_loop().call_soon(self.open.set)
        await self.open.wait()
        if self.fails:
            raise HandleNotFound("session", 1, allowed="none")


class GatedService(RecordingService):
    """One in which sessions open when all have asked for them.

    Attributes:
        ended: Whose calls ended, in that order.
    """

    def __init__(self, gate: Gate) -> None:
        self.ended: list[str] = []
        super().__init__(observe=self.note)
        self._gate = gate

    def note(self, observation: Observation) -> None:
        if isinstance(observation, CallEnded):
            principal = observation.call.principal
            self.ended.append("" if principal is None else principal.tenant)

    @override
    async def open_session(
        self, principal: Principal, request: SessionRequest = ANY_DEVICE, *, request_id: str = ""
    ) -> OpenedSession:
        await self._gate.admitted()
        return await super().open_session(principal, request, request_id=request_id)


async def call_over_grpc(entry_points: EntryPoints, key: str) -> None:
    stub: Any = SessionServiceStub(entry_points.channel)
    with suppress(grpc.aio.AioRpcError):
        await stub.OpenSession(OpenSessionRequest(), metadata=list(headers(key).items()))


async def call_over_rest(entry_points: EntryPoints, key: str) -> None:
    await entry_points.rest.post("/v1/sessions", json={}, headers=headers(key))


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("call", [call_over_grpc, call_over_rest])
async def test_calls_are_answered_in_turns(call: Any, *, fails: bool) -> None:
    gate, with_keys = Gate(fails=fails), service_with_keys()
    service = GatedService(gate)
    async with (
        open_entry_points(service, with_keys.guard, Metrics()) as entry_points,
        asyncio.TaskGroup() as calls,
    ):
        for _ in range(MANY):
            calls.create_task(call(entry_points, with_keys.lab))
        await gate.many.wait()
        await call(entry_points, with_keys.mill)
    assert sorted(service.ended) == CALLS
    assert service.ended.index("mill") < EARLY
