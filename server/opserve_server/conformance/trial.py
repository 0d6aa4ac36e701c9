"""One case on a device of this service, as often as asked, judged."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.conformance.record import CaseResult, result_of
from opserve_kernels.operator import DocumentedRules
from opserve_kernels.verdict.judge_case import judge_code
from opserve_kernels.verdict.verdict import Code, Status, Verdict
from opserve_server.conformance import tasks
from opserve_server.conformance.arbiter import Arbiter
from opserve_server.conformance.desk import TurnByTurn
from opserve_server.conformance.execution import Broken, Ran, plan_case, run_case
from opserve_server.core.errors import LimitExceeded
from opserve_server.core.leases import Lease
from opserve_server.core.results import RuleWarning


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What cases of a profile are tried with; any number at once.

    Attributes:
        arbiter: Knows what must come out.
        desk: Where is drawn and judged.
        lease: A session on a device of the profile.
        documented_rules: Of the session.
        repeats: Equal calls, whose bits must be equal.
        alone: Held by the case that has the session.
    """

    arbiter: Arbiter
    desk: TurnByTurn
    lease: Lease
    documented_rules: DocumentedRules
    repeats: int
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self, sought: tasks.Sought) -> CaseResult:
        """What becomes of a case."""
        case = sought.case
        if case.is_refused:
            async with self.alone:
                code, warnings = await plan_case(self.lease, case, self.documented_rules)
            verdict = judge_code(case, code, sought.contract)
            return result_of(verdict, warnings=_as_json(warnings))
        try:
            self.arbiter.check_size(case)
        except LimitExceeded as error:
            return unjudged(sought, Status.SKIPPED, error.message)
        before = await self.desk.do(tasks.memory_of, case, sought.seed)
        async with self.alone:
            outcome = await _ran(self.lease, case, before, self.repeats)
        match outcome:
            case Code():
                return result_of(judge_code(case, outcome, sought.contract))
            case Broken():
                return unjudged(sought, Status.ERROR, outcome.reason)
            case _:
                afters = [ran.storages for ran in outcome]
                judge = partial(tasks.verdict_on_memory, before=before, afters=afters)
                principal = self.lease.principal
                verdict = await self.arbiter.settled(self.desk, principal, sought, judge)
                return result_of(
                    verdict,
                    seconds=min(ran.seconds for ran in outcome),
                    warnings=_as_json(outcome[0].warnings),
                )


def _as_json(warnings: Iterable[RuleWarning]) -> list[dict[str, Any]]:
    return [asdict(broken) for broken in warnings]


def unjudged(sought: tasks.Sought, status: Status, reason: str) -> CaseResult:
    """Of a case without outputs."""
    return result_of(
        Verdict(case=sought.case.id, status=status, reason=reason, contract=sought.contract)
    )


async def _ran(
    lease: Lease, case: Case, before: Mapping[str, Array], repeats: int
) -> list[Ran] | Code | Broken:
    """Equal calls, until one leaves other bits than the first: no more are kept than those two."""
    runs: list[Ran] = []
    for _ in range(repeats):
        outcome = await run_case(lease, case, before, read=case.written if runs else before)
        if not isinstance(outcome, Ran):
            return outcome
        if not runs:
            runs.append(outcome)
        elif _is_same(case, runs[0].storages, outcome.storages):
            runs.append(replace(outcome, storages=runs[0].storages))
        else:
            return [*runs, outcome]
    return runs


def _is_same(case: Case, first: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Whether memory of what the call writes has the same bits."""
    return all(
        np.array_equal(first[name].view(np.uint8), other[name].view(np.uint8))
        for name in case.written
    )
