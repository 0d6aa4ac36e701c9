"""Processes that draw and judge, so that the front's loop goes on; tenants take turns at them."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

from opserve_kernels.status import Status
from opserve_server.conformance.payloads import (
    Payload,
    executed,
    packed,
    shared_memory,
    unpacked,
)
from opserve_server.core.errors import Unavailable
from opserve_server.core.waiting import to_its_end
from opserve_server.pool.parent_watch import exit_with_parent
from opserve_server.pool.process import PROCESS_TABLE

ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class TenantWorkers:
    """A conformance workers as those use it who have no turn: each task takes one of the tenant.

    Attributes:
        workers: The conformance workers.
        tenant: Whose turn it is.
    """

    workers: "ConformanceWorkers"
    tenant: str

    async def do(
        self,
        task: Callable[ParametersT, ResultT],
        *args: ParametersT.args,
        **options: ParametersT.kwargs,
    ) -> ResultT:
        """What a function comes to in another process, once the tenant has a turn."""
        async with self.workers.turn(self.tenant):
            return await self.workers.do(task, *args, **options)


class ConformanceWorkers:
    """Processes for work that takes long and needs no device; the first task starts them.

    Args:
        processes: How many, and how many tasks they are given at once.
    """

    def __init__(self, processes: int) -> None:
        self._count = processes
        self._pool: ProcessPoolExecutor | None = None
        self._free = asyncio.Semaphore(processes)
        # Of each tenant one call has tasks at a time, so that tenants take turns.
        self._turns = WeakValueDictionary[str, asyncio.Semaphore]()

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncGenerator[None]:
        """A turn of a tenant, until the block ends; while it waits for a device, others work."""
        async with self._turns.setdefault(tenant, asyncio.Semaphore(1)):
            yield

    async def do(
        self,
        task: Callable[ParametersT, ResultT],
        *args: ParametersT.args,
        **options: ParametersT.kwargs,
    ) -> ResultT:
        """What a function comes to in another process; if cancelled, it is over before this is.

        Raises:
            Unavailable: 507901, the process ended in the middle of it.
        """
        async with self._free:
            return await to_its_end(self._done(partial(task, *args, **options)))

    async def close(self) -> None:
        """Ends the processes, once what they do is over."""
        if self._pool is not None:
            await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)

    async def _done(self, task: Callable[[], ResultT]) -> ResultT:
        with shared_memory() as request_file, shared_memory() as answer_file:
            try:
                submitted = await asyncio.to_thread(self._submit, task, request_file, answer_file)
                found = await asyncio.wrap_future(submitted)
            except BrokenProcessPool:
                raise _lost() from None
            result: ResultT = unpacked(found, answer_file)
        return result

    def _submit(
        self, task: Callable[[], object], request_file: Path, answer_file: Path
    ) -> "Future[Payload]":
        work = partial(executed, packed(task, request_file), request_file, answer_file)
        with PROCESS_TABLE:  # it may start one
            if self._pool is not None:
                with suppress(BrokenProcessPool):  # one of its processes has ended
                    return self._pool.submit(work)
            context = get_context("forkserver")
            self._pool = ProcessPoolExecutor(self._count, context, initializer=exit_with_parent)
            return self._pool.submit(work)


def _lost() -> Unavailable:
    return Unavailable(
        Status.ACL_ERROR_RT_SOCKET_CLOSE,
        "conformance: given a case at which a process of the service ended, allowed a later try",
        parameter="conformance",
        given="a case at which a process of the service ended",
        allowed="a later try",
    )
