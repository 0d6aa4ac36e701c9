"""Device of this service as a conformance target: places a case's tensors and runs its call."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.schema_form import arguments_of
from opserve_kernels.conformance.target import Broken, Ran, Refused
from opserve_kernels.registry import OPERATORS
from opserve_kernels.verdict.verdict import Code
from opserve_server.core.errors import (
    ExecutionFailed,
    InvalidArgument,
    LimitExceeded,
    NotSupported,
)
from opserve_server.core.leases import Lease
from opserve_server.core.memory_commands import Allocate, Free
from opserve_server.core.operator_commands import DestroyExecutor, Execute, GetWorkspaceSize
from opserve_server.core.results import Planned
from opserve_server.core.stream_commands import SynchronizeStream


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedDevice:
    """The device of a session.

    Attributes:
        lease: The session, on a device of the profile of every case.
        check_size: Rejects a case that is too large to be tried (207012).
        alone: Lock held by the call that uses the session.
    """

    lease: Lease
    check_size: Callable[[Case], None]
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    def skips(self, case: Case) -> str:
        """Reason for which a case is too large; "" if it is not."""
        if not case.is_refused:
            try:
                self.check_size(case)
            except LimitExceeded as error:
                return error.message
        return ""

    async def run(
        self, case: Case, before: Mapping[str, Array], *, read: Collection[str]
    ) -> Ran | Refused | Broken:
        """Runs the call once."""
        async with self.alone:
            if case.is_refused:
                return await plan_case(self.lease, case)
            return await run_case(self.lease, case, before, read=read)


async def plan_case(lease: Lease, case: Case) -> Ran | Refused:
    """Phase one alone, with tensors without memory."""
    planned = await _planned(lease, case, {})
    if isinstance(planned, Refused):
        return planned
    await lease.run(DestroyExecutor(executor=planned.executor))
    return Ran(outputs={}, warnings=planned.warnings)


async def run_case(
    lease: Lease, case: Case, storages: Mapping[str, Array], *, read: Collection[str]
) -> Ran | Refused | Broken:
    """Runs both phases; frees everything that it allocated.

    Args:
        lease: On a device of the case's profile.
        case: The call.
        storages: Flat memory of every tensor before the call.
        read: The tensors that are read back.

    Returns:
        The outcome.

    Raises:
        OpserveError: Something other than the call was rejected or failed.
    """
    account = lease.service.accounts.of(lease.principal.tenant)
    with account.in_flight(sum(storage.nbytes for storage in storages.values())):
        buffers: dict[str, int] = {}
        try:
            for name, storage in storages.items():
                buffers[name] = await lease.allocate(Allocate(size_bytes=max(storage.nbytes, 1)))
                await lease.write(buffers[name], storage)
            planned = await _planned(lease, case, buffers)
            if isinstance(planned, Refused):
                return planned
            seconds = await _executed(lease, planned)
            if isinstance(seconds, Broken):
                return seconds
            after = {
                name: np.frombuffer(await lease.read(buffers[name], one.nbytes), one.dtype)
                if one.nbytes
                else one
                for name, one in storages.items()
                if name in read
            }
            return Ran(storages=after, seconds=seconds, warnings=planned.warnings)
        finally:
            for buffer in buffers.values():
                await lease.run(Free(buffer=buffer))


async def _executed(lease: Lease, planned: Planned) -> float | Broken:
    """Duration of the call, seconds."""
    workspace = await lease.allocate(Allocate(workspace_of=planned.executor))
    began = perf_counter()
    try:
        await lease.run(Execute(executor=planned.executor, workspace=workspace))
        await lease.run(SynchronizeStream())
    except ExecutionFailed as error:
        return Broken(reason=error.message)
    finally:
        if workspace:
            await lease.run(Free(buffer=workspace))
    return perf_counter() - began


async def _planned(lease: Lease, case: Case, buffers: Mapping[str, int]) -> Planned | Refused:
    arguments = arguments_of(case, OPERATORS[case.operator].schema, buffers)
    try:
        planned = await lease.run(GetWorkspaceSize(operator=case.operator, arguments=arguments))
    except (InvalidArgument, NotSupported) as error:
        code = Code(number=error.status.value, name=error.status.name)
        return Refused(code=code, reason=error.message)
    assert isinstance(planned, Planned)
    return planned
