"""A hypothesis state machine over the device queue: every step is done to a service and a model."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from math import inf
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from opserve_server.core.info import OpenedSession, WaitingInfo
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.service import Service
from opserve_server.core.session_request import SessionRequest
from opserve_server.core.tenants import Quota, Tenant
from server.core.fakes import LIMITS, FakeDevice
from server.core.waiting_clients import ADMIN
from simulation.choices import WHICH, one_of, pick
from simulation.queue_model import ModelCaller, ModelQueue, ModelSession, ModelWait
from simulation.virtual_time import VirtualTimeLoop

BOUNDS = replace(LIMITS, sessions_limit=5, device_sessions_limit=2, priority_step_s=10.0)
TAGS = {"one": frozenset("a"), "two": frozenset("b"), "three": frozenset("bc")}
QUOTAS = {"lab": inf, "mill": 2, "yard": inf}
PRIORITIES = 3
LEASE_S = 3600.0  # longer than all steps take
LONGEST_WAIT_S = 2000
Answer = TypeVar("Answer")


@dataclass(eq=False)
class Client:
    """A call for a device, its state in the model, and whether it was disconnected."""

    task: "asyncio.Task[OpenedSession | WaitingInfo]"
    wait: ModelWait
    caller: ModelCaller
    cut_off: bool = False


class QueueMachine(RuleBasedStateMachine):
    """Three tenants and three devices, of which some become ready now and then.

    No two things happen at the same time: each duration has a fraction of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.fractions = Random(0)  # noqa: S311  # times, not secrets
        self.devices = {name: FakeDevice(name=name, tags=tags) for name, tags in TAGS.items()}
        self.model = ModelQueue(BOUNDS, tuple(TAGS), QUOTAS)
        self.clients: list[Client] = []
        self.asked: dict[ModelWait, SessionRequest] = {}
        self.service: Service

    @initialize()
    def start(self) -> None:
        async def make() -> Service:
            return Service(list(self.devices.values()), limits=BOUNDS)

        self.service = self.do(make())
        self.tell_tenants()

    @override
    def teardown(self) -> None:
        try:
            self.all_waits_end()
        finally:
            self.do(self.service.stop())
            self.settle()
            # Errors that no code retrieved would be logged while some other test runs.
            for client in self.clients:
                answer_of(client.task)
            self.loop.close()
            for device in self.devices.values():
                device.slabs.close()

    def all_waits_end(self) -> None:
        self.pass_time(LONGEST_WAIT_S)  # a caller that joins a requested wait waits as long
        self.pass_time(BOUNDS.waiting_return_s)
        assert not self.waiting(), "somebody waits for ever"
        self.clients_have_the_answers_that_they_should()
        assert not self.clients

    def do(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return self.loop.run_until_complete(work)

    def settle(self) -> None:
        async def turns() -> None:
            for _ in range(12):
                await asyncio.sleep(0)

        self.do(turns())

    def waiting(self) -> list[WaitingInfo]:
        async def listed() -> list[WaitingInfo]:
            return self.service.list_waiting(ADMIN)

        return self.do(listed())

    def about(self, seconds: float) -> float:
        return seconds + self.fractions.randrange(1, 2**28) / 2**28

    def pass_time(self, seconds: float) -> None:
        self.do(asyncio.sleep(self.about(seconds)))
        self.settle()
        self.model.pass_to(self.loop.time())

    def tell_tenants(self) -> None:
        async def tell() -> None:
            self.service.renew_tenants(
                Tenant(
                    name=name,
                    quota=Quota(sessions=None if limit == inf else int(limit)),
                    priority_limit=PRIORITIES,
                    disabled=name in self.model.closed,
                )
                for name, limit in QUOTAS.items()
            )

        self.do(tell())
        self.settle()

    # What must hold after every step

    @invariant()
    def clients_have_the_answers_that_they_should(self) -> None:
        for client in self.clients:
            answer, expected = answer_of(client.task), expected_of(client)
            assert answer == expected, f"answered {answer!r}, expected {expected!r}: {client.wait}"
        self.clients = [client for client in self.clients if not client.task.done()]

    @invariant()
    def sessions_are_those_that_were_granted(self) -> None:
        found = Counter(
            (one.tenant, one.device, one.exclusive) for one in self.service.list_sessions(ADMIN)
        )
        granted = Counter((one.tenant, one.device, one.alone) for one in self.model.sessions)
        assert found == granted, f"sessions: {found}, expected {granted}"
        for device in TAGS:
            there = [one for one in self.model.sessions if one.device == device]
            assert len(there) == 1 or not any(one.alone for one in there), "alone with others"

    @invariant()
    def positions_and_times_are_told_as_they_are(self) -> None:
        now = self.loop.time()
        wanted = [
            (
                *(wait.tenant, wait.id, wait.priority, wait.alone_s is not None),
                *(self.model.position(wait), now - wait.asked_at, wait.gives_up_at - now),
            )
            for wait in self.model.in_order()
        ]
        listed = self.waiting()
        found = [
            (
                *(one.tenant, one.request_id, one.priority, one.exclusive),
                *(one.position, one.waited_s, one.left_s),
            )
            for one in listed
        ]
        assert wanted == found, f"waiting: {found}, expected {wanted}"
        assert all(one.waits_for for one in listed), "a reason to wait is missing"

    @invariant()
    def nobody_is_passed_but_by_who_comes_within_its_steps_of_priority(self) -> None:
        for first, device in self.model.granted:
            for other in self.model.waits:
                shares = other.alone_s is None and QUOTAS[other.tenant] == inf
                if shares and not other.away and device in other.devices:
                    later_s = first.asked_at - other.asked_at
                    steps = first.priority - other.priority
                    behind_s = other.time - other.asked_at
                    ahead_s = steps * BOUNDS.priority_step_s + behind_s
                    assert later_s <= ahead_s, "a waiting client was passed"
        self.model.granted.clear()

    # What clients do

    @rule(
        tenant=one_of(*sorted(QUOTAS)),
        tags=one_of("", "a", "b", "bc"),
        priority=st.integers(0, PRIORITIES),
        alone_s=one_of(0, 0, 10, 90),
        wait_s=one_of(0, 7, 45, 290, LONGEST_WAIT_S),
        way=one_of("once", "named", "notified"),
    )
    def ask(
        self, tenant: str, tags: str, priority: int, alone_s: int, wait_s: int, way: str
    ) -> None:
        asked = SessionRequest(
            tags=tuple(tags),
            lease_s=LEASE_S,
            priority=priority,
            wait_s=self.about(wait_s) if wait_s else 0.0,
            exclusive=alone_s > 0,
            exclusive_s=self.about(alone_s) if alone_s else 0.0,
        )
        now = self.loop.time()
        limit_s = BOUNDS.device_wait_limit_s if way == "notified" else BOUNDS.wait_limit_s
        wait = ModelWait(
            id="" if way == "once" else f"request {self.model.asked}",
            tenant=tenant,
            devices=tuple(name for name, having in TAGS.items() if having.issuperset(tags)),
            priority=priority,
            alone_s=asked.exclusive_s or None,
            asked_at=now,
            gives_up_at=now + min(asked.wait_s, limit_s),
        )
        self.asked[wait] = asked
        caller = self.call(wait, notified=way == "notified")
        wait.callers.append(caller)
        self.model.ask(wait)

    @precondition(lambda self: self.named())
    @rule(which=WHICH, notified=st.booleans())
    def ask_again(self, which: int, notified: bool) -> None:
        wait = pick(self.named(), which)
        caller = self.call(wait, notified=notified)
        if not wait.outcome:
            self.model.join(wait, caller)

    def named(self) -> list[ModelWait]:
        """Those that may be asked for again, and were not granted a device long ago."""
        granted = [wait for wait in self.asked if wait.outcome in TAGS][-BOUNDS.sessions_limit :]
        return [wait for wait in (*self.model.waits, *granted) if wait.id]

    def call(self, wait: ModelWait, *, notified: bool) -> ModelCaller:
        """A call begins."""
        who = Principal(tenant=wait.tenant, name="ann", scopes=frozenset({Scope.OPERATE}))
        tell_after_s = self.about(4.0) if notified else inf
        asked, service = self.asked[wait], self.service

        async def opening() -> OpenedSession | WaitingInfo:
            if not notified:
                return await service.open_session(who, asked, request_id=wait.id)
            return await service.request_session(
                who, asked, request_id=wait.id, tell_after_s=tell_after_s
            )

        caller = ModelCaller(leaves_at=self.loop.time() + tell_after_s)
        self.clients.append(Client(self.loop.create_task(opening()), wait, caller))
        self.settle()
        return caller

    @precondition(lambda self: self.clients)
    @rule(which=WHICH)
    def a_client_is_cut_off(self, which: int) -> None:
        client = pick(self.clients, which)
        client.cut_off = True
        client.task.cancel()
        self.settle()
        self.model.cut_off(client.wait, client.caller)

    # What happens to devices, sessions and tenants

    @precondition(lambda self: self.model.sessions)
    @rule(which=WHICH)
    def a_session_is_closed(self, which: int) -> None:
        session = pick(self.model.sessions, which)
        self.close(session)
        self.model.close(session)

    def close(self, session: ModelSession) -> None:
        wanted = (session.tenant, session.device, session.alone)
        known = self.service.list_sessions(ADMIN)
        found = (one.id for one in known if (one.tenant, one.device, one.exclusive) == wanted)
        self.do(self.service.release(ADMIN, next(found), force=False))
        self.settle()

    @rule(name=one_of(*sorted(TAGS)))
    def a_device_fails_or_is_ready_again(self, name: str) -> None:
        self.devices[name].ready = not self.devices[name].ready
        self.model.unready ^= {name}

    @rule(tenant=one_of(*sorted(QUOTAS)))
    def a_tenant_leaves_and_comes_back(self, tenant: str) -> None:
        self.model.closed.add(tenant)
        self.tell_tenants()
        self.model.tenant_leaves(tenant)
        self.clients_have_the_answers_that_they_should()
        self.model.closed.remove(tenant)
        self.tell_tenants()

    @rule(seconds=one_of(0, 1, 6, 30, 61))
    def time_passes(self, seconds: int) -> None:
        self.pass_time(seconds)


def answer_of(task: "asyncio.Task[OpenedSession | WaitingInfo]") -> str | int:
    """The device, the reported position, or the error; empty where there is none yet."""
    if not task.done():
        return ""
    if task.cancelled():
        return "CancelledError"
    if (error := task.exception()) is not None:
        return type(error).__name__
    answer = task.result()
    return answer.position if isinstance(answer, WaitingInfo) else answer.device.name


def expected_of(client: Client) -> str | int:
    """The expected answer to a client."""
    if client.cut_off:
        return "CancelledError"
    return client.wait.outcome if client.caller.notified is None else client.caller.notified
