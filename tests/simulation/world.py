"""A whole service in virtual time: the real core and devices, simulated workers and clients.

Everything that could differ between two runs follows from one seed: delays, deaths, lost answers,
names. So a seed that fails replays.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Self
from unittest import mock

from opserve_kernels.operator import PlanOptions
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS, kernels_of
from opserve_server.core.errors import HandleNotFound
from opserve_server.core.principal import LOCAL, Principal
from opserve_server.core.service import Service
from opserve_server.core.tenants import Tenant
from opserve_server.pool import device as device_module
from opserve_server.pool.device import Device
from server.core.fakes import LIMITS
from simulation.charges import check_nothing_is_charged
from simulation.client import LEASE_S, Client, image_call
from simulation.history import (
    Runs,
    check_at_most_once,
    check_events,
    check_order,
    check_synchronised,
    check_tenants,
    check_watched,
)
from simulation.mappings import Mappings
from simulation.virtual_time import VirtualTimeLoop
from simulation.worker import Ran, SimulatedWorker, WorkerFaults

PROFILE = "ascend910b"
DEVICE_BYTES = 2**20
SLAB_BYTES = 2**16
TENANTS = 2
CALL_TIME_LIMIT_S = 5.0
SILENCE_LIMIT_S = 4.0
WORLD_TIME_LIMIT_S = 3600.0
LIMITS_HERE = replace(LIMITS, wait_limit_s=120.0, request_ids_limit=64, plans_limit=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbances:
    """Disturbances of a simulated world.

    Attributes:
        clients: How many there are.
        steps: Things that each of them does.
        kills: Workers that are killed while clients work.
        drains: The chance that the service is stopped while clients work.
        deaths: The chance that a client dies instead of finishing.
        cut: The chance that an answer is lost.
        manners: How workers behave.
    """

    clients: int = 3
    steps: int = 12
    kills: int = 3
    drains: float = 0.2
    deaths: float = 0.2
    cut: float = 0.1
    worker_faults: WorkerFaults = field(default_factory=WorkerFaults)


CALM = Disturbances(
    clients=1,
    steps=6,
    kills=0,
    drains=0,
    deaths=0,
    cut=0,
    worker_faults=WorkerFaults(fails=0, hangs=0, endless=0, start_fails=0),
)


def tenant_number(number: int) -> Principal:
    """One of the tenants of a world."""
    return Principal(tenant=f"tenant-{number}", name="client", scopes=LOCAL.scopes)


class SteppedLoop(VirtualTimeLoop):
    """Counts its turns, and does something at one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0
        self.at_turn: tuple[int, Callable[[], object]] | None = None

    def _run_once(self) -> None:
        self.turns += 1
        if self.at_turn is not None and self.at_turn[0] == self.turns:
            self.call_soon(self.at_turn[1])
        super()._run_once()  # type: ignore[misc]  # asyncio's own


class World:
    """One device, its clients, and what befalls them.

    Args:
        seed: Decides everything.
        weather: How rough it is.
    """

    def __init__(self, seed: int, disturbances: Disturbances) -> None:
        self.seed = seed
        self.loop = SteppedLoop()
        self.log: list[Ran] = []
        self.clients: list[Client] = []
        self.workers: list[SimulatedWorker] = []
        self.turns_of_work = 0
        self._disturbances = disturbances
        self._random = Random(seed)  # noqa: S311  # to be replayed, not to be secret
        self._columns = 0
        self.mappings = Mappings()
        self._closing: list[asyncio.Task[None]] = []
        self.service: Service
        self.device: Device

    def run(self, *, at_turn: tuple[int, Callable[[Self], object]] | None = None) -> None:
        """Lets clients work while faults befall the service, then checks every guarantee.

        Args:
            at_turn: A turn of the loop, counted from the clients' start, and what to do in it.
        """
        processes = mock.Mock(start=self._start_worker)
        try:
            with (
                mock.patch.object(device_module, "WorkerProcess", processes),
                asyncio.Runner(loop_factory=lambda: self.loop) as runner,
            ):
                runner.run(self._live(at_turn))
        except BaseException as error:
            error.add_note(f"seed {self.seed}, turn {self.loop.turns}")
            raise

    def history(self) -> str:
        """Everything that happened, to be compared."""
        synchronised = [
            client_stream.history.synchronised
            for client in self.clients
            for client_stream in client.finished
        ]
        return repr((self.log, synchronised, self.loop.time()))

    def kill_worker(self) -> None:
        """Kills the worker that lives, if there is one."""
        if self.workers:
            self.workers[-1].kill()

    def cut_off_clients(self) -> None:
        """Every client loses the answer it waits for."""
        for client in self.clients:
            client.cut_off()

    def drain(self) -> None:
        """Stops the service."""
        self._closing.append(self.loop.create_task(self.service.drain()))

    def close_sessions(self) -> None:
        """Another caller closes the clients' sessions."""
        for client in self.clients:
            if client.session:
                closing = self._close(client.principal, client.session)
                self._closing.append(self.loop.create_task(closing))

    async def _live(self, at_turn: tuple[int, Callable[[Self], object]] | None) -> None:
        unhandled: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: unhandled.append(context))
        self.device = self._new_device()
        await self.device.start()
        self.service = Service(
            [self.device],
            limits=LIMITS_HERE,
            new_session_name=lambda: f"{self._random.getrandbits(128):032x}",
        )
        self.service.renew_tenants(
            Tenant(name=tenant_number(number).tenant, weight=number + 1)
            for number in range(TENANTS)
        )
        if at_turn is not None:
            turn, befall = at_turn
            self.loop.at_turn = self.loop.turns + turn, lambda: befall(self)
        begun = self.loop.turns
        try:
            async with asyncio.timeout(WORLD_TIME_LIMIT_S):
                await self._everybody_works()
            self.turns_of_work = self.loop.turns - begun
            await asyncio.gather(*self._closing)
            await self._ends_cleanly()
        except BaseException:
            await self.device.stop()  # else calls wait for ever for a worker
            raise
        self._check()
        assert not unhandled

    async def _close(self, principal: Principal, name: str) -> None:
        with suppress(HandleNotFound):  # its client may have closed it in the same moment
            await self.service.close_session(principal, name)

    def _new_device(self) -> Device:
        return Device(
            name=f"{PROFILE}-0",
            profile=PROFILE,
            memory_bytes=DEVICE_BYTES,
            slab_bytes=SLAB_BYTES,
            start_timeout_s=10.0,
            call_time_limit_s=CALL_TIME_LIMIT_S,
            silence_limit_s=SILENCE_LIMIT_S,
            threads=1,
            kernels=kernels_of(PROFILE),
        )

    async def _everybody_works(self) -> None:
        for number in range(self._disturbances.clients):
            client = Client(
                self.service,
                tenant_number(number % TENANTS),
                random=Random(self._random.getrandbits(64)),  # noqa: S311
                name_of=self._new_call,
                cut=self._disturbances.cut,
                mappings=self.mappings,
            )
            self.clients.append(client)
        async with asyncio.TaskGroup() as tasks:
            for client in self.clients:
                tasks.create_task(self._life(client))
            for _ in range(self._disturbances.kills):
                self.loop.call_later(self._random.uniform(0, 5), self.kill_worker)
            if self._random.random() < self._disturbances.drains:
                self.loop.call_later(self._random.uniform(0, 5), self.drain)

    async def _life(self, client: Client) -> None:
        await client.work(self._disturbances.steps)
        if self._random.random() < self._disturbances.deaths:
            client.die()
        else:
            await client.finish()

    async def _ends_cleanly(self) -> None:
        """Remaining sessions end with their leases, and all resources are released."""
        await asyncio.sleep(LEASE_S + 2 * (CALL_TIME_LIMIT_S + SILENCE_LIMIT_S) + 1)
        assert self.device.slabs.free_bytes == DEVICE_BYTES, "memory of a dead client is held"
        (device,) = self.service.list_devices(LOCAL)
        assert device.sessions == 0, "a session of a dead client is open"
        self.mappings.check_and_close()
        check_nothing_is_charged(self.service)
        await self.service.stop()
        await self.device.stop()
        (this,) = asyncio.all_tasks()
        assert this is asyncio.current_task()

    def _check(self) -> None:
        runs = Runs.of(self.log)
        client_streams = [found for client in self.clients for found in client.finished]
        check_tenants(self.log)
        check_at_most_once(
            runs, [call for client_stream in client_streams for call in client_stream.history.calls]
        )
        for client_stream in client_streams:
            check_order(runs, client_stream.history)
            check_events(runs, client_stream.history)
            check_synchronised(runs, client_stream.history)
            check_watched(runs, client_stream.history, client_stream.watcher)

    def _new_call(self) -> tuple[int, tuple[int, ...]]:
        self._columns += 1
        arguments = image_call(self._columns, source=0, target=0)
        operator = OPERATORS["im2col_backward"]
        return self._columns, operator.plan(arguments, PROFILES[PROFILE], PlanOptions()).parameters

    async def _start_worker(
        self,
        name: str,
        kernels: dict[str, str],
        *,
        threads: int,
        call_time_limit_s: float,
        on_message: Any,
    ) -> SimulatedWorker:
        del name, threads
        if self.workers and self._random.random() < self._disturbances.worker_faults.start_fails:
            raise OSError("planted: no process can be started")
        worker = SimulatedWorker(
            pid=len(self.workers) + 1,
            random=Random(self._random.getrandbits(64)),  # noqa: S311
            worker_faults=self._disturbances.worker_faults,
            operators=sorted(kernels),
            call_time_limit_s=call_time_limit_s,
            on_message=on_message,
            log=self.log,
            computes=self.mappings.computes,
        )
        self.workers.append(worker)
        return worker
