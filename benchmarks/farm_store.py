"""make bench-farm-store: the directory of 1,000 services in one PostgreSQL.

This process renews the rows of all services but one at their real intervals, and reads what they
read, without SQLAlchemy and without decoding rows, which 1,000 machines do for themselves. The last
service is real. A client opens sessions on it, and is moved to a simulated one when it is full.
"""

import argparse
import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import asyncpg
import grpc
from rich.table import Table

from benchmarks.machine import machine
from benchmarks.measure import percentile, seconds_of
from benchmarks.raw import RawCalls
from benchmarks.report import console
from benchmarks.service_with_keys import new_store
from opserve.v1.session_service_pb2 import CloseSessionRequest, OpenSessionRequest
from opserve_client.private_service import private_service
from opserve_client.wire.methods import CLOSE_SESSION, OPEN_SESSION
from opserve_server.core.farm import ID_DIGITS
from opserve_server.core.info import DeviceInfo, ServiceAddress
from opserve_server.farm import LONGEST_INTERVAL_S, ROWS_PER_S
from opserve_server.settings import Settings
from opserve_server.store.database import Database
from opserve_server.store.engine import new_engine
from opserve_server.store.location import location_of
from opserve_server.store.services import ServiceReport, Services
from server.store.postgresql import postgresql

SERVICES = 1000
SECONDS = 30.0
CONNECTIONS = 48
"""Connections of this process; the server of the tests accepts 100."""
SESSIONS = 200
OTHERS = """
SELECT * FROM services WHERE name <> $1 AND lease_until > EXTRACT(epoch FROM clock_timestamp())
ORDER BY name
"""
RENEW = """
UPDATE services
SET devices = devices, room = room, uses = uses, drains = false,
    lease_until = EXTRACT(epoch FROM clock_timestamp()) + $3
WHERE name = $1 AND epoch = $2 AND lease_until > EXTRACT(epoch FROM clock_timestamp())
"""
"""The statements of opserve_server.store.services."""
LEASE_S = Settings.model_fields["farm_lease_s"].default


@dataclass(slots=True)
class Measured:
    """Seconds of each kind of work, and bytes of rows that were read."""

    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    read_bytes: int = 0
    read_rows: int = 0

    async def time(self, kind: str, work: Awaitable[object]) -> None:
        began_s = time.perf_counter()
        await work
        self.seconds.setdefault(kind, []).append(time.perf_counter() - began_s)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=SERVICES)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    given = parser.parse_args()
    described = machine()
    with postgresql() as server:
        measured = asyncio.run(
            _measured(server.url("test"), services=given.services, seconds=given.seconds)
        )
    title = f"{described}; {given.services} services, {given.seconds:g} s"
    table = Table("work", "number", "a second", "p50, ms", "p99, ms", title=title)
    for kind, seconds in measured.seconds.items():
        table.add_row(
            kind,
            f"{len(seconds):,}",
            f"{len(seconds) / given.seconds:,.0f}",
            *(f"{percentile(seconds, percent) * 1e3:.3g}" for percent in (50, 99)),
        )
    console().print(table)
    size = measured.read_bytes / max(measured.read_rows, 1)
    print(f"{size:.0f} bytes a row; {measured.read_bytes / given.seconds / 1e6:.1f} MB/s are read")


async def _measured(url: str, *, services: int, seconds: float) -> Measured:
    measured = Measured()
    await new_store(url, ())  # creates the tables
    engine = new_engine(location_of(url), timeout_s=60.0, connections_limit=1)
    directory = Services(Database(engine, check_place=lambda: None))
    pool = await asyncpg.create_pool(url, min_size=1, max_size=CONNECTIONS)
    try:
        reports = [report_of(number) for number in range(services - 1)]
        epochs = [await directory.register(one, lease_s=300.0) for one in reports]
        async with asyncio.TaskGroup() as tasks:
            for report, epoch in zip(reports, epochs, strict=True):
                renew = _renewal(pool, report.address.name, epoch)
                tasks.create_task(
                    _repeated(measured, "renewal", renew, LONGEST_INTERVAL_S, seconds)
                )
                read = _reading(pool, report.address.name, measured)
                every_s = max(services / ROWS_PER_S, LONGEST_INTERVAL_S)
                tasks.create_task(
                    _repeated(measured, "reading of the others", read, every_s, seconds)
                )
            tasks.create_task(asyncio.to_thread(_open_sessions, url, measured, seconds))
    finally:
        await pool.close()
        await engine.dispose()
    return measured


def report_of(number: int) -> ServiceReport:
    """The report of a service with one device."""
    name = f"service-{number}"
    host = f"10.{number >> 8}.{number & 255}.1"
    device = DeviceInfo(
        name="ascend910b-0",
        profile="ascend910b",
        products="Atlas A2 Training Series Product",
        operators=("aclnnConvolutionBackward", "aclnnConvolution", "aclnnIm2colBackward"),
        memory_bytes=1 << 30,
        free_memory_bytes=1 << 30,
        ready=True,
        sessions=0,
        tags=(),
        exclusive=False,
        kernel_variant="fma16",
    )
    return ServiceReport(
        id=sha256(name.encode()).hexdigest()[:ID_DIGITS],
        address=ServiceAddress(name=name, grpc=f"{host}:50051", http=f"http://{host}:8080"),
        version="0.3.0",
        kernel_variant="fma16",
        devices=[device],
        room=[256],
        drains=False,
        uses={"tenant": {"sessions": 1}},
    )


def _renewal(pool: asyncpg.Pool, name: str, epoch: int) -> Callable[[], Awaitable[object]]:
    async def renew() -> None:
        done = await pool.execute(RENEW, name, epoch, LEASE_S)
        assert done == "UPDATE 1", "a lease ended"

    return renew


def _reading(pool: asyncpg.Pool, name: str, measured: Measured) -> Callable[[], Awaitable[object]]:
    async def read() -> None:
        rows = await pool.fetch(OTHERS, name)
        measured.read_rows += len(rows)
        measured.read_bytes += sum(len(str(value)) for row in rows[:1] for value in row) * len(rows)

    return read


async def _repeated(
    measured: Measured,
    kind: str,
    work: Callable[[], Awaitable[object]],
    every_s: float,
    seconds: float,
) -> None:
    loop = asyncio.get_running_loop()
    end_s = loop.time() + seconds
    await asyncio.sleep(random.uniform(0.0, every_s))  # noqa: S311  # as services that start apart
    while loop.time() < end_s:
        began_s = loop.time()
        await measured.time(kind, work())
        await asyncio.sleep(max(began_s + every_s - loop.time(), 0.0))


def _open_sessions(url: str, measured: Measured, seconds: float) -> None:
    """Opens sessions on a real service of the farm, and is moved by it once it is full."""
    settings = {"store_url": url, "farm_name": "real", "device_sessions_limit": "1"}
    with private_service(devices='["ascend910b"]', **settings) as addresses:
        opened = measured.seconds.setdefault("OpenSession, CloseSession", [])
        moved = measured.seconds.setdefault("OpenSession that is moved", [])
        with RawCalls(addresses.grpc) as calls:
            end_s = time.perf_counter() + seconds / 2
            while time.perf_counter() < end_s:
                opened.append(seconds_of(lambda: _close(calls, _open(calls))))
            session = _open(calls)
            while len(moved) < SESSIONS:
                moved.append(seconds_of(lambda: _be_moved(calls)))
            _close(calls, session)


def _open(calls: RawCalls) -> str:
    return calls.call(OPEN_SESSION, OpenSessionRequest(profile="ascend910b")).session


def _close(calls: RawCalls, session: str) -> None:
    calls.call(CLOSE_SESSION, CloseSessionRequest(session=session))


def _be_moved(calls: RawCalls) -> None:
    try:
        _open(calls)
    except grpc.RpcError as error:
        failed: Any = error
        assert failed.code() is grpc.StatusCode.FAILED_PRECONDITION, failed
    else:
        raise AssertionError("a full service opened a session")


if __name__ == "__main__":
    main()
