"""Tenants of the soak test: sessions that open and close, calls of every kind, and their count."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.client_behaviours import (
    BEHAVIOURS,
    cancel_calls,
    make_errors,
    queue_and_abort,
    run_calls,
)
from benchmarks.one_shot import connect_request, rest_request
from benchmarks.small_call import DATA
from opserve_client import AsyncClient, AsyncSession, OpserveError
from opserve_client.http_async import HttpConnections
from opserve_client.wire.http_messages import origin_of

LEASE_S = 2.0
"""Lease of a session that its tenant will leave unclosed, so that it ends soon."""
OUT_OF_MEMORY, NULL_ARGUMENT, NO_SESSION = 207001, 161001, 107017
_LEFT = 0.2
"""Share of the sessions that their tenant leaves unclosed, as after a crash."""
IN_A_LEFT_SESSION = "in a session with a short lease"
_ONE_SHOTS = 0.3
"""Share of the sessions before which a tenant makes a one-shot call."""
_TIMEOUT_S = 60.0
_OK = 200


class NoMemory(Exception):
    """A one-shot call was rejected, as its device has no free memory."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Calls and failures of all tenants.

    Attributes:
        calls: Calls by their kind; one may be several requests.
        explained: Failures that the soak causes on purpose, by kind and reason.
        unexplained: All other failures, by kind and error.
    """

    calls: Counter[str] = field(default_factory=Counter[str])
    explained: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    unexplained: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    @contextmanager
    def counted(self, kind: str) -> Generator[None]:
        """Counts a call, and the failure that ends the block."""
        self.calls[kind] += 1
        try:
            yield
        except Exception as error:  # noqa: BLE001  # counted, and the soak goes on
            reason = _reason(kind, error)
            if reason:
                self.explained[kind, reason] += 1
            else:
                self.unexplained[kind, f"{type(error).__name__}: {error}"] += 1


def kind_of(call: Callable[..., object], api: str) -> str:
    """Returns the kind of a behaviour over an API in words."""
    return f"{call.__name__.replace('_', ' ')} over {api}"


def _reason(kind: str, error: Exception) -> str:
    """Returns the reason of an expected failure; empty for any other."""
    code = error.code if isinstance(error, OpserveError) else None
    if isinstance(error, NoMemory) or code == OUT_OF_MEMORY:
        return "the device has no free memory"
    if code == NULL_ARGUMENT and kind.startswith(kind_of(make_errors, "")):
        return "rejected on purpose"
    if code == NO_SESSION and kind.endswith(IN_A_LEFT_SESSION):
        return "a slow computer outlasted the short lease"
    if isinstance(error, TimeoutError) and kind.startswith(kind_of(cancel_calls, "")):
        return "cancelled on purpose"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of one tenant over one API, until a time.

    Attributes:
        api: Name of the API.
        address: Its address.
        http: URL of the HTTP port, for one-shot calls.
        api_key: API key of the tenant.
        tally: Counts the calls.
    """

    api: str
    address: str
    http: str
    api_key: str
    tally: Tally

    async def in_long_session(self, session: AsyncSession, *, seed: int, until_s: float) -> None:
        """Calls in a session that lasts for all rounds."""
        chance, time = random.Random(seed), asyncio.get_running_loop().time  # noqa: S311  # no secret
        while time() < until_s:
            behaviour = chance.choice((run_calls, queue_and_abort))
            with self.tally.counted(kind_of(behaviour, self.api)):
                await behaviour(session, chance)

    async def in_short_sessions(self, *, seed: int, until_s: float) -> None:
        """Connects again and again, and leaves some sessions unclosed."""
        chance, time = random.Random(seed), asyncio.get_running_loop().time  # noqa: S311  # no secret
        while time() < until_s:
            if chance.random() < _ONE_SHOTS:
                way = chance.choice(("REST", "Connect"))
                with self.tally.counted(f"one-shot by {way}"):
                    await self._one_shot(by_rest=way == "REST")
            with self.tally.counted(f"session over {self.api}"):
                await self._session(chance)

    async def _session(self, chance: random.Random) -> None:
        async with AsyncClient(self.address, api_key=self.api_key) as client:
            leaves = chance.random() < _LEFT
            session = await client.open_session(lease_s=LEASE_S if leaves else None)
            where = f" {IN_A_LEFT_SESSION}" if leaves else ""
            for _ in range(chance.randrange(1, 8)):
                behaviour = chance.choice(BEHAVIOURS)
                with self.tally.counted(kind_of(behaviour, self.api) + where):
                    await behaviour(session, chance)
            if not leaves:
                await session.close()
            else:
                await session._heartbeat.stop()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as after a crash

    async def _one_shot(self, *, by_rest: bool) -> None:
        http = HttpConnections(origin_of(self.http), None)
        request = (rest_request if by_rest else connect_request)(api_key=self.api_key)
        try:
            status, answer = await http.call(request, timeout_s=_TIMEOUT_S)
        finally:
            await http.aclose()
        if status != _OK and str(OUT_OF_MEMORY).encode() in answer:
            raise NoMemory
        assert status == _OK, answer
        assert DATA in answer, "a wrong answer"
