"""A case on a session of the core: its tensors as they lie in memory, the call, memory after it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.refusals.warned import stands_for_refusal
from opserve_kernels.cases.schema_form import arguments_of
from opserve_kernels.operator import DocumentedRules
from opserve_kernels.registry import OPERATORS
from opserve_kernels.verdict.verdict import Code
from opserve_server.core.errors import ExecutionFailed, InvalidArgument, NotSupported
from opserve_server.core.leases import Lease
from opserve_server.core.memory_commands import Allocate, Free
from opserve_server.core.operator_commands import DestroyExecutor, Execute, GetWorkspaceSize
from opserve_server.core.results import Planned, RuleWarning
from opserve_server.core.stream_commands import SynchronizeStream


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The call succeeded.

    Attributes:
        storages: Memory after it, of the tensors that were to be read.
        seconds: From its submission to its end.
        warnings: Broken rules of the vendor's page.
    """

    storages: Mapping[str, Array]
    seconds: float
    warnings: tuple[RuleWarning, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The device failed."""

    reason: str


async def plan_case(
    lease: Lease, case: Case, documented_rules: DocumentedRules
) -> tuple[Code | None, tuple[RuleWarning, ...]]:
    """Phase one alone, with tensors that lie nowhere.

    Args:
        lease: On a device of the case's profile.
        case: Of a call that must be refused.
        documented_rules: Of the lease's session.

    Returns:
        The code of the refusal, or of the expected warning; the broken rules of an accepted call.
    """
    planned = await _planned(lease, case, {})
    if isinstance(planned, Code):
        return planned, ()
    await lease.run(DestroyExecutor(executor=planned.executor))
    codes = (
        Code(number=broken.code, name=broken.name)
        for broken in planned.warnings
        if stands_for_refusal(case, broken, warns=documented_rules is DocumentedRules.WARN)
    )
    return next(codes, None), planned.warnings


async def run_case(
    lease: Lease, case: Case, storages: Mapping[str, Array], *, read: Collection[str]
) -> Ran | Code | Broken:
    """The whole call; the session has no more afterwards than before.

    Args:
        lease: On a device of the case's profile.
        case: The call.
        storages: Flat memory of every tensor before the call.
        read: The tensors that are read back.

    Returns:
        What came of it; a code, if the call was refused.

    Raises:
        OpserveError: Something else than the call was refused or failed.
    """
    account = lease.service.accounts.of(lease.principal.tenant)
    with account.in_flight(sum(storage.nbytes for storage in storages.values())):
        buffers: dict[str, int] = {}
        try:
            for name, storage in storages.items():
                buffers[name] = await lease.allocate(Allocate(size_bytes=max(storage.nbytes, 1)))
                await lease.write(buffers[name], storage)
            planned = await _planned(lease, case, buffers)
            if isinstance(planned, Code):
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
    """The seconds that it took."""
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


async def _planned(lease: Lease, case: Case, buffers: Mapping[str, int]) -> Planned | Code:
    arguments = arguments_of(case, OPERATORS[case.operator].schema, buffers)
    try:
        planned = await lease.run(GetWorkspaceSize(operator=case.operator, arguments=arguments))
    except (InvalidArgument, NotSupported) as error:
        return Code(number=error.status.value, name=error.status.name)
    assert isinstance(planned, Planned)
    return planned
