"""Conformance workers: processes that draw inputs and judge outputs, shared fairly by tenants."""

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
    """Conformance workers for callers without a turn: each task takes a turn of the tenant.

    Attributes:
        workers: The conformance workers.
        tenant: The tenant.
    """

    workers: "ConformanceWorkers"
    tenant: str

    async def do(
        self,
        task: Callable[ParametersT, ResultT],
        *args: ParametersT.args,
        **options: ParametersT.kwargs,
    ) -> ResultT:
        """Runs a function in another process, once the tenant's turn has come."""
        async with self.workers.turn(self.tenant):
            return await self.workers.do(task, *args, **options)


class ConformanceWorkers:
    """Processes for long work without a device; the first task starts them.

    Args:
        processes: Number of processes, and of tasks at once.
    """

    def __init__(self, processes: int) -> None:
        self._count = processes
        self._pool: ProcessPoolExecutor | None = None
        self._free = asyncio.Semaphore(processes)
        # Only one call of each tenant has tasks at a time, so that tenants alternate.
        self._turns = WeakValueDictionary[str, asyncio.Semaphore]()

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncGenerator[None]:
        """A turn of a tenant until the block ends; others run while it waits for a device."""
        async with self._turns.setdefault(tenant, asyncio.Semaphore(1)):
            yield

    async def do(
        self,
        task: Callable[ParametersT, ResultT],
        *args: ParametersT.args,
        **options: ParametersT.kwargs,
    ) -> ResultT:
        """Runs a function in another process; a cancellation waits for its end.

        Raises:
            Unavailable: 507901, the process died during the task.
        """
        async with self._free:
            return await to_its_end(self._done(partial(task, *args, **options)))

    async def close(self) -> None:
        """Ends the processes after their current tasks."""
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
        "A process of the service ended at this case: retry, or leave the case out.",
        parameter="conformance",
        given="a case at which a process of the service ended",
        allowed="a later try",
    )
