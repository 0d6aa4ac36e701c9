"""Reference device: expected values of cases, computed by a device of the profile `reference`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.sums import multiply_adds
from opserve_kernels.conformance.expected import (
    NO_REFERENCE,
    REFERENCE_RULES,
    Answer,
    CallGroup,
    ExpectedFolder,
    PreparedCall,
    Task,
    answers_to,
)
from opserve_kernels.conformance.target import Broken, Ran, Refused
from opserve_kernels.errors import VALUE_CHARACTERS, shortened
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import Status
from opserve_kernels.verdict.judge_case import NO_STANDARDS, Standards
from opserve_server.conformance.execution import run_case
from opserve_server.conformance.workers import ConformanceWorkers, TenantWorkers
from opserve_server.core.errors import InvalidArgument, LimitExceeded, Unavailable
from opserve_server.core.leases import Lease, leased
from opserve_server.core.principal import Principal
from opserve_server.core.service import Service
from opserve_server.core.session_request import SessionRequest
from opserve_server.npz import ArrayLimits

ResultT = TypeVar("ResultT")
_REFERENCE = SessionRequest(profile="reference", documented_rules=REFERENCE_RULES, here=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceLimits:
    """Bounds on the cost of one case.

    Attributes:
        elements: Elements of one of its tensors.
        multiply_adds: Products of all its outputs.
        arrays: Arrays of an .npz of outputs.
        expected_values_folder: Folder of expected values.
        expected_values_bytes: Bytes of all expected values.
        sent_bytes: Bytes of one tenant's kept outputs and verdicts.
        sent_total_bytes: Bytes of all tenants' kept outputs and verdicts.
    """

    elements: int
    multiply_adds: int
    arrays: ArrayLimits
    expected_values_folder: Path
    expected_values_bytes: int
    sent_bytes: int
    sent_total_bytes: int


class ReferenceDevice:
    """Computes the expected outcome of cases.

    Args:
        service: The core, with a device of the profile `reference`.
        limits: Bounds on cases.

    Attributes:
        limits: Bounds on cases.
    """

    def __init__(self, service: Service, limits: ConformanceLimits) -> None:
        self._service, self.limits = service, limits
        self._expected_folder = ExpectedFolder(
            folder=limits.expected_values_folder, limit_bytes=limits.expected_values_bytes
        )

    def check_size(self, case: Case) -> None:
        """Rejects a case that exceeds the limits (207012)."""
        elements = max(
            max(
                tensor.storage_elements, tensor.tensor().element_count
            )  # a stride of 0 shows more elements than it stores
            for tensor in case.tensors.values()
        )
        for what, given, limit in (
            ("elements of a tensor", elements, self.limits.elements),
            ("multiply-adds", multiply_adds(case), self.limits.multiply_adds),
        ):
            if given > limit:
                raise LimitExceeded(
                    Status.ACL_ERROR_RT_OVER_LIMIT,
                    f"The case has {given} {what}, and {limit} are the limit: use a smaller one.",
                    parameter="case",
                    given=f"{given} {what}",
                    allowed=limit,
                )

    def task(self, case: Case, seed: int, standards: Standards = NO_STANDARDS) -> Task:
        """The judging task of a case."""
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
        """Conformance workers beside a device of `reference`, for one caller."""
        return WorkersBackend(service=self._service, workers=workers, principal=principal)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersBackend:
    """Computes expected values for a caller.

    Attributes:
        service: The core, with a device of the profile `reference`.
        workers: Processes that draw inputs and judge outputs.
        principal: The caller.
    """

    service: Service
    workers: ConformanceWorkers | TenantWorkers
    principal: Principal

    async def do(self, work: Callable[[], ResultT]) -> ResultT:
        """Runs a function in another process."""
        return await self.workers.do(work)

    async def answers(self, calls: Sequence[CallGroup]) -> Sequence[Answer]:
        """Expected values, computed in a session of the caller."""
        sizes = [
            sum(storage.nbytes for storage in prepared.storages.values())
            for call in calls
            for prepared in call.calls
        ]
        account = self.service.accounts.of(self.principal.tenant)
        # Waiting operands count as bytes in flight here; run_case counts those in use.
        with account.in_flight(sum(sizes) - max(sizes)):
            try:
                async with leased(self.service, self.principal, _REFERENCE) as lease:
                    return await answers_to(calls, lambda prepared: _answered(lease, prepared))
            except InvalidArgument as error:
                raise _without_reference(error) from error


def _without_reference(error: InvalidArgument) -> InvalidArgument:
    """The error of a service without a reference device, with its remedy; other errors as given."""
    if error.status != Status.ACL_ERROR_RT_INVALID_DEVICEID:
        return error
    return InvalidArgument(
        error.status,
        f"{NO_REFERENCE}.",
        parameter="profile",
        given=error.given,
        allowed=error.allowed,
    )


async def _answered(lease: Lease, prepared: PreparedCall) -> Mapping[str, Array]:
    case = prepared.case
    outcome = await run_case(lease, case, prepared.storages, read=case.written)
    if not isinstance(outcome, Ran):
        raise _no_answer(outcome)
    return outcome.storages


def _no_answer(outcome: Refused | Broken) -> Unavailable:
    return Unavailable(
        Status.ACL_ERROR_RT_SOCKET_CLOSE,
        "The reference device did not compute the expected values "
        f"({shortened(outcome.reason, VALUE_CHARACTERS)}): retry later.",
        parameter="expected values",
        given="no answer of the reference device",
        allowed="a later try",
    )
