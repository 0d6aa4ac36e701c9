"""One case on a device of this service, as often as asked, judged."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.verdict.json_form import to_json
from opserve_kernels.verdict.judge_case import judge_code
from opserve_kernels.verdict.verdict import Code, Status, Verdict
from opserve_server.conformance import tasks
from opserve_server.conformance.arbiter import Arbiter
from opserve_server.conformance.desk import Desk
from opserve_server.conformance.execution import Broken, Ran, plan_case, run_case
from opserve_server.core.errors import LimitExceeded
from opserve_server.core.leases import Lease
from opserve_server.core.runs import WORST, CaseResult


async def tried(
    arbiter: Arbiter, desk: Desk, lease: Lease, sought: tasks.Sought, repeats: int
) -> CaseResult:
    """What becomes of a case in a session on a device of its profile.

    Args:
        arbiter: Knows what must come out.
        desk: Where is drawn and judged.
        lease: The session.
        sought: What is asked of the case.
        repeats: Equal calls, whose bits must be equal.
    """
    case = sought.case
    if case.is_refused:
        return result_of(judge_code(case, await plan_case(lease, case), sought.contract))
    try:
        arbiter.check_size(case)
    except LimitExceeded as error:
        return unjudged(case, Status.SKIPPED, error.message, sought.contract)
    before = await desk.do(tasks.memory_of, case, sought.seed)
    outcome = await _ran(lease, case, before, repeats)
    match outcome:
        case Code():
            return result_of(judge_code(case, outcome, sought.contract))
        case Broken():
            return unjudged(case, Status.ERROR, outcome.reason, sought.contract)
        case _:
            afters = [ran.storages for ran in outcome]
            judge = partial(tasks.verdict_on_memory, before=before, afters=afters)
            verdict = await arbiter.settled(lease.principal, sought, judge)
            return result_of(verdict, seconds=min(ran.seconds for ran in outcome))


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


def unjudged(case: Case, status: Status, reason: str, contract: str) -> CaseResult:
    """Of a case without outputs."""
    return result_of(Verdict(case=case.id, status=status, reason=reason, contract=contract))


def result_of(verdict: Verdict, *, seconds: float = 0.0) -> CaseResult:
    """What is kept of a verdict."""
    passed = verdict.status is Status.PASSED
    return CaseResult(
        case=verdict.case,
        status=verdict.status.value,
        reason=verdict.reason,
        worst=min(verdict.worst, WORST),
        seconds=seconds,
        verdict="" if passed else json.dumps(to_json(verdict), allow_nan=False),
    )
