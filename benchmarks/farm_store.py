"""make bench-farm-store: the directory of 1,000 services in one PostgreSQL.

One service is real, and a client opens sessions on it. This process renews the rows of the others
and reads the directory and the waiting line at their intervals, each in one message where they send
several, and does not decode the rows: 1,000 machines do that for themselves.
"""

import argparse
import asyncio
import os
import random
import time
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.census import children_of
from benchmarks.machine import machine
from benchmarks.measure import percentile, seconds_of
from benchmarks.raw import RawCalls
from benchmarks.report import console
from benchmarks.service_with_keys import new_store
from opserve.v1.session_service_pb2 import CloseSessionRequest, OpenSessionRequest
from opserve_client.private_service import private_service
from opserve_client.wire.methods import CLOSE_SESSION, OPEN_SESSION
from opserve_server.farm import FULL_READING_S, LINE_INTERVAL_S, LONGEST_INTERVAL_S
from opserve_server.settings import Settings
from opserve_server.store.services import ServiceRow, Services
from opserve_server.store.store import open_store
from opserve_server.store.waiting import READ_LIMIT
from server.store.postgresql import postgresql

SERVICES = 1000
SECONDS = 30.0
CHANGED_SHARE = 0.25
"""Share of the renewals that report a change: a session that opened or ended."""
QUEUED_SHARE = 0.2
"""Share of the services where a request waits."""
CONNECTIONS = 48
"""Connections of this process; the server of the tests accepts 100."""
LEASE_S: float = Settings.model_fields["farm_lease_s"].default
ASYNCPG: Any = import_module("asyncpg")  # it has no types
Pool = Any
_RANDOM = random.Random(0)  # noqa: S311  # times and changes, not secrets
NOW = "EXTRACT(epoch FROM clock_timestamp())"
RENEW = f"""
BEGIN;
UPDATE services SET devices = '%(devices)s', uses = '%(uses)s', lease_until = {NOW} + {LEASE_S},
changed_at = CASE WHEN (devices, uses) IS DISTINCT FROM ('%(devices)s', '%(uses)s') THEN {NOW}
ELSE changed_at END WHERE name = '%(name)s' AND epoch = %(epoch)d AND lease_until > {NOW};
SELECT array_agg(name) FILTER (WHERE lease_until > {NOW}), {NOW} FROM services;
SELECT * FROM services WHERE lease_until > {NOW} AND changed_at > %(since_s)r - 1.0 ORDER BY name;
COMMIT
"""  # noqa: S608  # of constants, and of names that this module makes
"""The statements of opserve_server.store.services, with the columns that change."""
WRITE_LINE = f"""
INSERT INTO waiting VALUES
('local', '%(name)s', %(rank)r, 0, 'ascend910b', '[]', false, true, false, '%(name)s', %(epoch)d,
{NOW} + 30, '', 0)
ON CONFLICT (tenant, request) DO UPDATE SET service = excluded.service, epoch = excluded.epoch,
until = excluded.until WHERE waiting.service = '%(name)s';
DELETE FROM waiting WHERE (tenant, request) IN
(SELECT tenant, request FROM waiting WHERE until < {NOW} FOR UPDATE SKIP LOCKED);
"""  # noqa: S608  # of constants, and of names that this module makes
READ_LINE = f"""
SELECT waiting.* FROM waiting LEFT JOIN services ON services.name = waiting.service
AND services.epoch = waiting.epoch AND services.lease_until > {NOW}
WHERE NOT (waiting.service = '%(name)s' AND waiting.epoch = %(epoch)d AND claimed_by = '')
AND profile IN ('ascend910b') AND until > {NOW}
ORDER BY services.name IS NOT NULL AND claimed_by = '' DESC, rank LIMIT {READ_LIMIT};
"""  # noqa: S608  # of constants, and of names that this module makes
HELD = "SELECT 1 FROM services WHERE name = '%(name)s' AND epoch = %(epoch)d;"
"""The statements of opserve_server.store.waiting."""
RENEWAL = "renewal, and reading of the directory"
LINE = "exchange of the waiting line"
OPEN = "OpenSession, CloseSession on one of them"


@dataclass(slots=True)
class Measured:
    """Durations and lost leases of a run.

    Attributes:
        seconds: Durations by kind of work.
        lost: Leases that had ended when the measurement did.
        loop_share: Share of a core that the event loop of the real service took, without sessions.
    """

    seconds: dict[str, list[float]] = field(
        default_factory=lambda: {RENEWAL: [], LINE: [], OPEN: []}
    )
    lost: int = 0
    loop_share: float = 0.0


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=SERVICES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    given = parser.parse_args()
    described = machine()  # before the load of the benchmark itself
    with postgresql() as server:
        url = server.url("test")
        asyncio.run(new_store(url, ()))  # creates the tables
        before = set(children_of(os.getpid()))
        with private_service(
            devices='["ascend910b"]', store_url=url, farm_name="real", log_level="ERROR"
        ) as addresses:
            front = min(set(children_of(os.getpid())) - before)
            measured = asyncio.run(
                _measured(
                    url, addresses.grpc, front, others=given.services - 1, seconds=given.seconds
                )
            )
    table = Table("work", "number", "a second", "p50, ms", "p99, ms")
    table.title = f"{described}; {given.services} services, {given.seconds:g} s"
    for kind, seconds in measured.seconds.items():
        table.add_row(
            kind,
            f"{len(seconds):,}",
            f"{len(seconds) / given.seconds:,.0f}",
            *(f"{percentile(seconds, percent) * 1e3:.3g}" for percent in (50, 99)),
        )
    console().print(table)
    console().print(
        f"{measured.lost} leases lost; "
        f"{measured.loop_share:.1%} of a core for the event loop of a service without sessions"
    )


async def _measured(url: str, address: str, front: int, *, others: int, seconds: float) -> Measured:
    measured = Measured()
    async with (
        open_store(url, timeout_s=60.0, connections_limit=1) as store,
        ASYNCPG.create_pool(url, min_size=1, max_size=CONNECTIONS) as pool,
    ):
        directory = Services(store.database)
        (real,) = (await directory.read()).changed
        rows = [
            replace(real, name=f"service-{number}", grpc_address=f"grpc://10.0.0.1:{number}")
            for number in range(others)
        ]
        # A long first lease, as they register one after the other.
        epochs = [await directory.register(row, lease_s=300.0) for row in rows]
        end_s = asyncio.get_running_loop().time() + seconds
        async with asyncio.TaskGroup() as tasks:
            for place, (row, epoch) in enumerate(zip(rows, epochs, strict=True)):
                tasks.create_task(_renew(pool, row, epoch, measured, end_s=end_s))
                queued = place < QUEUED_SHARE * others
                sharing = _share_line(pool, row.name, epoch, measured, queued=queued, end_s=end_s)
                tasks.create_task(sharing)
            tasks.create_task(
                asyncio.to_thread(_open_sessions, address, front, measured, seconds / 2)
            )
        measured.lost = len(rows) + 1 - len((await directory.read()).live)
    return measured


async def _renew(
    pool: Pool, row: ServiceRow, epoch: int, measured: Measured, *, end_s: float
) -> None:
    """Renews a lease at its interval until the end."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(_RANDOM.uniform(0.0, LONGEST_INTERVAL_S))  # start apart
    values = {"name": row.name, "epoch": epoch, "devices": row.devices, "uses": row.uses}
    since_s, whole_s = time.time(), loop.time() - _RANDOM.uniform(0, FULL_READING_S)
    while (began_s := loop.time()) < end_s:
        if _RANDOM.random() < CHANGED_SHARE:
            values["uses"] = f'{{"local": {{"sessions": {_RANDOM.randrange(9)}}}}}'
        if began_s - whole_s >= FULL_READING_S:
            since_s, whole_s = 0.0, began_s
        async with pool.acquire() as connection:
            await connection.execute(RENEW % (values | {"since_s": since_s}))
        since_s = time.time()
        measured.seconds[RENEWAL].append(loop.time() - began_s)
        await asyncio.sleep(LONGEST_INTERVAL_S)  # as a service, after the renewal


async def _share_line(
    pool: Pool, name: str, epoch: int, measured: Measured, *, queued: bool, end_s: float
) -> None:
    """Exchanges the waiting line at its interval until the end; with a request, or without."""
    loop = asyncio.get_running_loop()
    interval_s = LINE_INTERVAL_S if queued else LONGEST_INTERVAL_S
    values = {"name": name, "epoch": epoch, "rank": time.time()}
    script = f"BEGIN; {HELD} {WRITE_LINE if queued else ''} {READ_LINE} COMMIT" % values
    await asyncio.sleep(_RANDOM.uniform(0.0, interval_s))  # start apart
    while (began_s := loop.time()) < end_s:
        async with pool.acquire() as connection:
            await connection.execute(script)
        measured.seconds[LINE].append(loop.time() - began_s)
        await asyncio.sleep(interval_s)


def _open_sessions(address: str, front: int, measured: Measured, seconds: float) -> None:
    """Measures the loop of the real service for some seconds, then opens sessions for as long."""
    before_s = _loop_s(front)
    time.sleep(seconds)
    measured.loop_share = (_loop_s(front) - before_s) / seconds
    end_s = time.perf_counter() + seconds
    with RawCalls(address) as calls:
        while time.perf_counter() < end_s:
            measured.seconds[OPEN].append(seconds_of(lambda: _open_and_close(calls)))


def _loop_s(front: int) -> float:
    """Processor time of the main thread of a process."""
    return int(Path(f"/proc/{front}/schedstat").read_text().split()[0]) / 1e9


def _open_and_close(calls: RawCalls) -> None:
    opened = calls.call(OPEN_SESSION, OpenSessionRequest(profile="ascend910b"))
    calls.call(CLOSE_SESSION, CloseSessionRequest(session=opened.session))


if __name__ == "__main__":
    main()
