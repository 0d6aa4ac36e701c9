"""One case on a device of this service, judged."""

import json
from functools import partial

from opserve_kernels.cases.case import Case
from opserve_kernels.verdict.json_form import to_json
from opserve_kernels.verdict.judge_case import judge_code
from opserve_kernels.verdict.verdict import Code, Status, Verdict
from opserve_server.conformance import tasks
from opserve_server.conformance.arbiter import Arbiter
from opserve_server.conformance.desk import Desk
from opserve_server.conformance.execution import Ran, plan_case, run_case
from opserve_server.core.errors import LimitExceeded
from opserve_server.core.leases import Lease
from opserve_server.core.runs import WORST, CaseResult


async def tried(arbiter: Arbiter, desk: Desk, lease: Lease, case: Case, seed: int) -> CaseResult:
    """What becomes of a case in a session on a device of its profile."""
    sought = arbiter.sought(case, seed)
    if case.is_refused:
        return result_of(judge_code(case, await plan_case(lease, case), sought.contract))
    try:
        arbiter.check_size(case)
    except LimitExceeded as error:
        return unjudged(case, Status.SKIPPED, error.message, sought.contract)
    before = await desk.do(tasks.memory_of, case, seed)
    outcome = await run_case(lease, case, before, read=before.keys())
    match outcome:
        case Ran():
            judge = partial(tasks.verdict_on_memory, before=before, after=outcome.storages)
            verdict = await arbiter.settled(lease.principal, sought, judge)
            return result_of(verdict, seconds=outcome.seconds)
        case Code():
            return result_of(judge_code(case, outcome, sought.contract))
        case _:
            return unjudged(case, Status.ERROR, outcome.reason, sought.contract)


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
