"""The arbiter: what must come out of cases, by a device of the profile `reference`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.sums import multiply_adds
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import Status
from opserve_kernels.verdict.golden_values import kept_arrays
from opserve_kernels.verdict.judge_case import NO_STANDARDS, Standards
from opserve_kernels.verdict.verdict import Code
from opserve_server.conformance import tasks
from opserve_server.conformance.desk import Desk, TurnByTurn
from opserve_server.conformance.execution import Broken, Ran, run_case
from opserve_server.core.asking import SessionRequest
from opserve_server.core.errors import LimitExceeded, Unavailable
from opserve_server.core.leases import Lease, leased
from opserve_server.core.principal import Principal
from opserve_server.core.service import Service
from opserve_server.npz import ArrayLimits

ResultT = TypeVar("ResultT")
_REFERENCE = SessionRequest(profile="reference", documented_rules="warn")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceLimits:
    """Bounds on what one case may cost.

    Attributes:
        elements: Of one tensor of it.
        multiply_adds: Products of all its outputs.
        arrays: Of an .npz of outputs.
        golden_folder: Where golden values are kept.
        golden_bytes: Of all of them.
        sent_bytes: Of one tenant's outputs and verdicts that are kept.
        sent_total_bytes: Of all tenants'.
    """

    elements: int
    multiply_adds: int
    arrays: ArrayLimits
    golden_folder: Path
    golden_bytes: int
    sent_bytes: int
    sent_total_bytes: int


class Arbiter:
    """Knows what a case must come to.

    Args:
        service: With a device of the profile `reference`.
        limits: Bounds on cases.

    Attributes:
        limits: The same.
    """

    def __init__(self, service: Service, limits: ConformanceLimits) -> None:
        self._service, self.limits = service, limits
        self._shelf = tasks.Shelf(folder=limits.golden_folder, limit_bytes=limits.golden_bytes)

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

    def sought(self, case: Case, seed: int, standards: Standards = NO_STANDARDS) -> tasks.Sought:
        """What is asked of a case."""
        return tasks.Sought(
            case=case,
            seed=seed,
            contract=str(OPERATORS[case.operator].revision),
            standards=standards,
            shelf=self._shelf,
        )

    async def settled(
        self,
        desk: Desk | TurnByTurn,
        principal: Principal,
        sought: tasks.Sought,
        task: Callable[[tasks.Sought], ResultT | tasks.Open],
    ) -> ResultT:
        """What a task comes to at a desk, once the arbiter has answered what it asks."""
        found = await desk.do(task, sought)
        if isinstance(found, tasks.Open):
            answered = replace(sought, answers=await self._answers(principal, found))
            found = await desk.do(task, answered)
            assert not isinstance(found, tasks.Open), "all was answered"
        return found

    async def _answers(self, principal: Principal, asked: tasks.Open) -> Sequence[tasks.Answer]:
        """Golden values and magnitudes, computed in a session of the caller's."""
        sizes = [
            sum(storage.nbytes for storage in question.storages.values())
            for call in asked.calls
            for question in call.questions
        ]
        account = self._service.accounts.of(principal.tenant)
        # Operands that wait count as bytes under way; those at work run_case counts.
        with account.in_flight(sum(sizes) - max(sizes)):
            async with leased(self._service, principal, _REFERENCE) as lease:
                return [await _answer(lease, call) for call in asked.calls]


async def _answer(lease: Lease, call: tasks.Asked) -> tasks.Answer:
    """What is kept of a call's outputs."""
    arrays: dict[str, Array] = {}
    for question in call.questions:
        outcome = await run_case(
            lease, question.case, question.storages, read=question.case.written
        )
        if not isinstance(outcome, Ran):
            raise _no_answer(outcome)
        arrays |= kept_arrays(question, outcome.storages)
    return tasks.Answer(key=call.key, arrays=arrays, projection=call.projection)


def _no_answer(outcome: Code | Broken) -> Unavailable:
    reason = outcome.text if isinstance(outcome, Code) else outcome.reason
    return Unavailable(
        Status.ACL_ERROR_RT_SOCKET_CLOSE,
        f"golden values: given no answer of the arbiter ({reason}), allowed a later try",
        parameter="golden values",
        given="no answer of the arbiter",
        allowed="a later try",
    )
