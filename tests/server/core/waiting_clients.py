"""A service on some devices, and clients that wait for them."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from opserve_server.core.errors import OpserveError
from opserve_server.core.info import OpenedSession, WaitingInfo
from opserve_server.core.limits import Limits
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.service import Service
from opserve_server.core.session_request import SessionRequest
from opserve_server.core.tenants import Quota, Tenant
from server.core.fakes import LIMITS, FakeDevice

LAB, MILL = (
    Principal(tenant=name, name="ann", scopes=frozenset({Scope.OPERATE}))
    for name in ("lab", "mill")
)
ADMIN = Principal(tenant="ops", name="root", scopes=frozenset({Scope.ADMIN}))
TENANTS = (
    Tenant(name="lab", priority_limit=3),
    Tenant(name="mill", quota=Quota(sessions=1)),
)
ONE_EACH = replace(LIMITS, device_sessions_limit=1)
WAITS = SessionRequest(wait_s=100.0, lease_s=3600.0)
ALONE = replace(WAITS, exclusive=True)
TURN = 0.001
"""Seconds in which everything that is ready is done, in virtual time."""


class WaitingClients:
    """A service on some devices, and the clients that request its sessions."""

    def __init__(self, *devices: FakeDevice, limits: Limits = ONE_EACH) -> None:
        self.devices = devices or (FakeDevice(),)
        self.service = Service(self.devices, limits=limits)
        self.service.renew_tenants(TENANTS)
        self._requests: list[asyncio.Task[OpenedSession]] = []

    def requests(
        self, asked: SessionRequest = WAITS, *, who: Principal = LAB, request_id: str = ""
    ) -> "asyncio.Task[OpenedSession]":
        """A client that waits."""
        opening = self.service.open_session(who, asked, request_id=request_id)
        self._requests.append(asyncio.create_task(opening))
        return self._requests[-1]

    def requests_notified(
        self, request_id: str, asked: SessionRequest = WAITS, *, after_s: float = 1.0
    ) -> Coroutine[Any, Any, OpenedSession | WaitingInfo]:
        """A client that is notified of its position."""
        return self.service.request_session(LAB, asked, request_id=request_id, tell_after_s=after_s)

    async def close(self, opened: OpenedSession, *, who: Principal = LAB) -> None:
        await self.service.close_session(who, opened.session)
        await asyncio.sleep(TURN)

    async def end(self) -> None:
        """Everything ends, and nothing is left in the line."""
        await self.service.stop()
        await asyncio.gather(*self._requests, return_exceptions=True)
        assert not self.service.list_waiting(ADMIN)

    def positions(self) -> list[int]:
        return [info.position for info in self.service.list_waiting(ADMIN)]


async def refused(opening: Coroutine[Any, Any, object]) -> OpserveError:
    with pytest.raises(OpserveError) as refusal:
        await opening
    return refusal.value
