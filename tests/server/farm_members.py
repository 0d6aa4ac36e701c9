"""Services of a farm over one PostgreSQL, whose renewals and exchanges the test makes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from opserve_server.core.info import OpenedSession
from opserve_server.core.limits import Limits
from opserve_server.core.principal import LOCAL, Principal
from opserve_server.core.service import Service
from opserve_server.core.session_request import SessionRequest
from opserve_server.farm import Membership
from opserve_server.store.database import Database
from opserve_server.store.services import Services
from opserve_server.store.store import open_store
from opserve_server.store.waiting import WaitingLine
from server.core.fakes import LIMITS, FakeDevice
from server.store.conftest import TIMEOUT_S

LEASE_S = 600.0
_TURNS = 8
"""Iterations of the event loop in which a request takes its place."""
WAITS = SessionRequest(wait_s=100.0)


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


class Member:
    """A service of a farm."""

    def __init__(
        self, database: Database, name: str, clock: Clock, *, limits: Limits = LIMITS
    ) -> None:
        self.services, self.line = Services(database), WaitingLine(database, name)
        self.membership = Membership(name, lease_s=LEASE_S, clock=clock)
        self.device = FakeDevice(tags=frozenset({"lab"}))
        self.service = Service([self.device], limits=limits, farm=self.membership)
        self._waiting: list[asyncio.Task[OpenedSession]] = []

    async def begin(self) -> None:
        name = self.membership.name
        await self.membership.begin(
            self.services,
            self.line,
            self.service,
            grpc_address=f"grpc://{name}:1",
            http_address=f"http://{name}:2",
        )

    async def renew(self) -> None:
        await self.membership.renew(self.services, self.service)

    async def share(self) -> None:
        """Exchanges waiting requests with the others."""
        await self.membership.share(self.line, self.service)

    async def fill(self) -> list[str]:
        """Takes all sessions of the device."""
        (record,) = self.service.device_records()
        opened = [
            await self.service.open_session(LOCAL, SessionRequest(here=True))
            for _ in range(record.room)
        ]
        return [one.session for one in opened]

    async def close(self, session: str) -> None:
        await self.service.close_session(LOCAL, session)

    async def waits(
        self, request_id: str, request: SessionRequest = WAITS, *, who: Principal = LOCAL
    ) -> "asyncio.Task[OpenedSession]":
        """A client that waits here."""
        opening = self.service.open_session(who, request, request_id=request_id)
        waiting = asyncio.create_task(opening)
        self._waiting.append(waiting)
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        return waiting

    async def stop(self) -> None:
        await self.service.stop()
        await asyncio.gather(*self._waiting, return_exceptions=True)
        self.device.slabs.close()


@dataclass
class TwoMembers:
    """Services a and b, which have read each other's rows."""

    a: Member
    b: Member
    clock: Clock
    services: Services
    database: Database


@asynccontextmanager
async def two_members(url: str) -> AsyncGenerator[TwoMembers]:
    clock = Clock()
    async with open_store(url, timeout_s=TIMEOUT_S, connections_limit=4) as store:
        a, b = (Member(store.database, name, clock) for name in "ab")
        await a.begin()
        await b.begin()
        await a.renew()
        yield TwoMembers(a, b, clock, a.services, store.database)
        for member in (a, b):
            await member.stop()
