"""The arbiter: what must come out of cases, by a device of the profile `reference`."""

from collections.abc import Callable, Mapping
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
from opserve_server.conformance.desk import Desk
from opserve_server.conformance.execution import Broken, Ran, run_case
from opserve_server.core.errors import LimitExceeded, Unavailable
from opserve_server.core.leases import leased
from opserve_server.core.principal import Principal
from opserve_server.core.service import DeterministicLevel, Service
from opserve_server.npz import ArrayLimits

ResultT = TypeVar("ResultT")


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
    """

    elements: int
    multiply_adds: int
    arrays: ArrayLimits
    golden_folder: Path
    golden_bytes: int
    sent_bytes: int


class Arbiter:
    """Knows what a case must come to.

    Args:
        service: With a device of the profile `reference`.
        desk: Where is drawn and judged.
        limits: Bounds on cases.

    Attributes:
        limits: The same.
    """

    def __init__(self, service: Service, desk: Desk, limits: ConformanceLimits) -> None:
        self._service, self._desk, self.limits = service, desk, limits
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
            computed={},
        )

    async def settled(
        self,
        principal: Principal,
        sought: tasks.Sought,
        task: Callable[[tasks.Sought], ResultT | tasks.Open],
    ) -> ResultT:
        """What a task comes to, once the arbiter has answered what it asks."""
        answer = await self._desk.do(task, sought)
        while isinstance(answer, tasks.Open):
            new = {
                question.key: await self._answer(principal, question)
                for question in answer.questions
            }
            sought = replace(sought, computed={**sought.computed, **new})
            answer = await self._desk.do(task, sought)
        return answer

    async def _answer(self, principal: Principal, question: tasks.Question) -> Mapping[str, Array]:
        """Golden values and magnitudes, computed in a session of the caller's."""
        case, found = question.case, list[Mapping[str, Array]]()
        async with leased(self._service, principal, case.profile) as lease:
            lease.set_deterministic_level(DeterministicLevel.DETERMINISTIC)
            for storages in (question.values, question.magnitudes):
                outcome = await run_case(lease, case, storages, read=case.written)
                if not isinstance(outcome, Ran):
                    raise _no_answer(outcome)
                found.append(outcome.storages)
        values, magnitudes = found
        return kept_arrays(case, values, magnitudes)


def _no_answer(outcome: Code | Broken) -> Unavailable:
    reason = outcome.text if isinstance(outcome, Code) else outcome.reason
    return Unavailable(
        Status.ACL_ERROR_RT_SOCKET_CLOSE,
        f"golden values: given no answer of the arbiter ({reason}), allowed a later try",
        parameter="golden values",
        given="no answer of the arbiter",
        allowed="a later try",
    )
