"""The reference device: what must come out of cases, by a device of the profile `reference`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.sums import multiply_adds
from opserve_kernels.conformance.expected import (
    REFERENCE_RULES,
    Answer,
    CallGroup,
    ExpectedFolder,
    PreparedCall,
    Task,
    answers_to,
)
from opserve_kernels.conformance.target import Broken, Ran, Refused
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import Status
from opserve_kernels.verdict.judge_case import NO_STANDARDS, Standards
from opserve_server.conformance.execution import run_case
from opserve_server.conformance.workers import ConformanceWorkers, TenantWorkers
from opserve_server.core.errors import LimitExceeded, Unavailable
from opserve_server.core.leases import Lease, leased
from opserve_server.core.principal import Principal
from opserve_server.core.service import Service
from opserve_server.core.session_request import SessionRequest
from opserve_server.npz import ArrayLimits

ResultT = TypeVar("ResultT")
_REFERENCE = SessionRequest(profile="reference", documented_rules=REFERENCE_RULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceLimits:
    """Bounds on what one case may cost.

    Attributes:
        elements: Of one tensor of it.
        multiply_adds: Products of all its outputs.
        arrays: Of an .npz of outputs.
        expected_values_folder: Where expected values are kept.
        expected_values_bytes: Of all of them.
        sent_bytes: Of one tenant's outputs and verdicts that are kept.
        sent_total_bytes: Of all tenants'.
    """

    elements: int
    multiply_adds: int
    arrays: ArrayLimits
    expected_values_folder: Path
    expected_values_bytes: int
    sent_bytes: int
    sent_total_bytes: int


class ReferenceDevice:
    """Knows what a case must come to.

    Args:
        service: With a device of the profile `reference`.
        limits: Bounds on cases.

    Attributes:
        limits: The same.
    """

    def __init__(self, service: Service, limits: ConformanceLimits) -> None:
        self._service, self.limits = service, limits
        self._expected_folder = ExpectedFolder(
            folder=limits.expected_values_folder, limit_bytes=limits.expected_values_bytes
        )

    def check_size(self, case: Case) -> None:
        """Refuses a case that costs more than the limits allow (207012)."""
        elements = max(
            max(tensor.storage_elements, tensor.tensor().element_count)  # a step of 0 shows more
            for tensor in case.tensors.values()
        )
        for what, given, limit in (
            ("elements of a tensor", elements, self.limits.elements),
            ("multiply-adds", multiply_adds(case), self.limits.multiply_adds),
        ):
            if given > limit:
                raise LimitExceeded(
                    Status.ACL_ERROR_RT_OVER_LIMIT,
                    f"case: given {given} {what}, allowed {limit}",
                    parameter="case",
                    given=f"{given} {what}",
                    allowed=limit,
                )

    def task(self, case: Case, seed: int, standards: Standards = NO_STANDARDS) -> Task:
        """A case that is to be judged."""
        return Task(
            case=case,
            seed=seed,
            contract=str(OPERATORS[case.operator].revision),
            standards=standards,
            expected_folder=self._expected_folder,
        )

    def backend(
        self, workers: ConformanceWorkers | TenantWorkers, principal: Principal
    ) -> "WorkersBackend":
        """A conformance workers beside a device of `reference`, for a caller."""
        return WorkersBackend(service=self._service, workers=workers, principal=principal)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersBackend:
    """Computes for a caller.

    Attributes:
        service: With a device of the profile `reference`.
        workers: Draws and judges.
        principal: The caller.
    """

    service: Service
    workers: ConformanceWorkers | TenantWorkers
    principal: Principal

    async def do(self, work: Callable[[], ResultT]) -> ResultT:
        """The result of a function, in another process."""
        return await self.workers.do(work)

    async def answers(self, calls: Sequence[CallGroup]) -> Sequence[Answer]:
        """Expected values, computed in a session of the caller's."""
        sizes = [
            sum(storage.nbytes for storage in prepared.storages.values())
            for call in calls
            for prepared in call.calls
        ]
        account = self.service.accounts.of(self.principal.tenant)
        # Operands that wait count as bytes under way; those at work run_case counts.
        with account.in_flight(sum(sizes) - max(sizes)):
            async with leased(self.service, self.principal, _REFERENCE) as lease:
                return await answers_to(calls, lambda prepared: _answered(lease, prepared))


async def _answered(lease: Lease, prepared: PreparedCall) -> Mapping[str, Array]:
    case = prepared.case
    outcome = await run_case(lease, case, prepared.storages, read=case.written)
    if not isinstance(outcome, Ran):
        raise _no_answer(outcome)
    return outcome.storages


def _no_answer(outcome: Refused | Broken) -> Unavailable:
    return Unavailable(
        Status.ACL_ERROR_RT_SOCKET_CLOSE,
        f"expected values: given no answer of the reference device "
        f"({outcome.reason}), allowed a later try",
        parameter="expected values",
        given="no answer of the reference device",
        allowed="a later try",
    )
