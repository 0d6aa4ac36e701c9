"""A test farm with something going on, for pictures, tests and benchmarks of the dashboard."""

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

import numpy as np

from benchmarks.census import children_of
from benchmarks.sample_runs import sample_run
from benchmarks.service_with_keys import new_store, store_url
from opserve.v1.conformance_service_pb2 import Run
from opserve_client import Client, Im2colBackward, OpserveError, Session
from opserve_client.cli_connection import ConnectionOptions
from opserve_client.conform.history import send
from opserve_client.conform.targets.named import Access
from opserve_client.private_service import Addresses, private_service
from opserve_server.bootstrap import first_key
from opserve_server.core.tenants import Quota, Tenant
from opserve_server.store.store import open_store

DEVICES = ("ascend910b-0", "ascend910-0")
TARGET = "my_kernels.npu:backward"
BASELINE = "yesterday"
CALL = Im2colBackward(
    grad_output=np.ones((1, 64, 196), np.float32),
    input_size=[15, 15],
    kernel_size=[2, 2],
    dilation=[1, 1],
    padding=[0, 0],
    stride=[1, 1],
)
_DAY_S = 86_400
_CASES, _ELEMENTS, _SEED = 40, 8000, 8
_TENANTS = (
    Tenant(name="vision", weight=3, quota=Quota(sessions=8, device_seconds_per_day=3600.0)),
    Tenant(name="speech", quota=Quota(sessions=2, device_memory_bytes=2**29)),
    Tenant(name="robotics"),
)
_EARLIER = (
    ("vision", 1, 5400.0, 81_000),
    ("speech", 1, 1260.0, 9_400),
    ("robotics", 2, 310.0, 900),
)
"""Tenant, days ago, device seconds and calls of earlier days."""


@dataclass(frozen=True, slots=True)
class Farm:
    """A service with two devices and three tenants.

    Attributes:
        addresses: Its addresses.
        keys: A key of each tenant and of "admin".
        store: The file of its store.
        front: Its front process.
    """

    addresses: Addresses
    keys: Mapping[str, str]
    store: Path
    front: int

    def client(self, tenant: str) -> Client:
        """A client with the key of a tenant."""
        return Client(self.addresses.rest, api_key=self.keys[tenant])

    def kill_worker(self) -> None:
        """Kills a worker, which the service replaces."""
        started = children_of(self.front)
        workers = {worker for one in started for worker in children_of(one)}
        os.kill(
            min(workers), signal.SIGKILL
        )  # workers of devices start before those of conformance


@contextmanager
def farm(**settings: str) -> Generator[Farm]:
    """Runs the service until the block ends; see private_service for its settings."""
    profiles = '["ascend910b", "ascend910"]'
    with TemporaryDirectory() as folder:
        url = store_url(Path(folder))
        # In another thread, as Playwright keeps an event loop running in that of its caller.
        with ThreadPoolExecutor(1) as apart:
            keys = dict(apart.submit(asyncio.run, new_store(url, _TENANTS)).result())
            keys["admin"] = apart.submit(asyncio.run, _admin_key(url)).result()
        before = set(children_of(os.getpid()))
        with private_service(
            store_url=url, no_keys="false", devices=profiles, **settings
        ) as addresses:
            front = min(set(children_of(os.getpid())) - before)
            yield Farm(addresses, keys, Path(folder, "opserve.db"), front)


async def _admin_key(url: str) -> str:
    async with open_store(url, timeout_s=5.0, connections_limit=1) as store:
        return await first_key(store, "admin", force=False, now=time.time())


def history(of: Farm) -> tuple[Run, Run]:
    """Adds a run of yesterday that passed, a run of today that failed, and use of earlier days."""
    access = Access(
        address=of.addresses.rest, connection=ConnectionOptions(api_key=of.keys["vision"])
    )
    runs = [
        send(sample_run(_CASES, seed=_SEED, elements=_ELEMENTS, failing=failing), TARGET, access)
        for failing in (0.0, 0.12)
    ]
    today = datetime.now(UTC).date()
    with closing(sqlite3.connect(of.store)) as store, store:
        store.execute(
            "UPDATE conformance_runs SET created_at = created_at - ?, ended_at = ended_at - ? "
            "WHERE id = ?",
            (_DAY_S, _DAY_S, runs[0].id),
        )
        store.executemany(
            "INSERT INTO usage (tenant, day, profile, device_s, calls) VALUES (?, ?, ?, ?, ?)",
            [
                (tenant, str(today - timedelta(days=ago)), "ascend910b", device_s, calls)
                for tenant, ago, device_s, calls in _EARLIER
            ],
        )
    with of.client("vision") as client:
        client.conformance.set_baseline(BASELINE, runs[0].id)
    return runs[0], runs[1]


@contextmanager
def traffic(of: Farm) -> Generator[Session]:
    """Sessions with work, and three requests that wait for a device that one session has."""
    done = Event()
    with ExitStack() as stack:
        speech = stack.enter_context(of.client("speech"))
        held = stack.enter_context(speech.open_session("ascend910b", exclusive=True))
        held.allocate(2**28)
        robotics = stack.enter_context(of.client("robotics"))
        shared = stack.enter_context(robotics.open_session("ascend910"))
        vision = stack.enter_context(of.client("vision"))
        own = stack.enter_context(vision.open_session("ascend910"))
        stack.callback(done.set)
        threads = [
            *(
                Thread(target=_work, args=(one, pause, done))
                for one, pause in ((held, 0.01), (own, 0.2), (shared, 0.1))
            ),
            *(
                Thread(target=_wait, args=(of, tenant), daemon=True)
                for tenant in ("robotics", "vision", "vision")
            ),
        ]
        for thread in threads:
            thread.start()
        yield own
        done.set()


def _work(session: Session, pause_s: float, done: Event) -> None:
    """Runs calls until the end."""
    while not done.wait(pause_s):
        try:
            session.run(CALL)
        except OpserveError:
            return


def _wait(of: Farm, tenant: str) -> None:
    """Waits for the device until the service ends."""
    with of.client(tenant) as client:
        try:
            client.open_session("ascend910b", wait_s=250.0).__enter__().close()
        except OpserveError:
            return
