"""Run history of a tenant: reported runs, baselines, and comparisons of two runs."""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from opserve_kernels.conformance.comparison import Outcomes, compare
from opserve_kernels.conformance.record import CaseResult, Tally
from opserve_server.calls import caller, malformed
from opserve_server.conformance.answers import (
    AllBaselines,
    OneBaseline,
    OneRun,
    ResultPage,
    RunChanges,
    RunPage,
)
from opserve_server.conformance.calls import (
    CompareRuns,
    DeleteBaseline,
    ListBaselines,
    OfHistory,
    OfRun,
    ReportRun,
    SetBaseline,
)
from opserve_server.conformance.reports import check_report, checked, parts_of
from opserve_server.conformance.request_checks import BASELINE, check_like
from opserve_server.conformance.runs import SuiteRuns
from opserve_server.conformance.workers import ConformanceWorkers, TenantWorkers
from opserve_server.core.errors import HandleNotFound
from opserve_server.core.runs import Baseline, Origin, Run, RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLimits:
    """Bounds on the history of one tenant.

    Attributes:
        runs: Runs without a name.
        baselines: Names.
        report_bytes: Bytes of one reported run.
    """

    runs: int
    baselines: int
    report_bytes: int


class History:
    """Calls on a tenant's runs.

    Args:
        runs: Executes runs on devices.
        workers: Processes that check reported verdicts.
        limits: Bounds.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        runs: SuiteRuns,
        workers: ConformanceWorkers,
        limits: HistoryLimits,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._runs, self._workers, self.limits, self._clock = runs, workers, limits, clock

    async def run(
        self, request: OfRun | OfHistory
    ) -> OneRun | RunPage | ResultPage | OneBaseline | AllBaselines | RunChanges:
        """Executes a call.

        Raises:
            HandleNotFound: 107017, the tenant has no such run or baseline.
            LimitExceeded: 207012, the tenant has the maximum number of baselines or active runs.
            InvalidArgument: 100000, a value is out of bounds.
            NotSupported: 200001, the service has no store.
            StoreUnavailable: 507901, the store does not answer.
        """
        match request:
            case ReportRun():
                return OneRun(run=self._runs.info(await self._report(request)))
            case SetBaseline():
                return OneBaseline(baseline=await self._set(request))
            case ListBaselines():
                found = await self._runs.kept.baselines.of(caller().tenant)
                return AllBaselines(baselines=found)
            case DeleteBaseline():
                return OneBaseline(baseline=await self._delete(request))
            case CompareRuns():
                return await self._compare(request)
            case _:
                return await self._runs.run(request)

    async def _report(self, request: ReportRun) -> Run:
        kept, tenant = self._runs.kept, caller().tenant
        check_report(request)
        results, workers = list[CaseResult](), TenantWorkers(self._workers, tenant)
        for part in parts_of(request.results):
            results += await workers.do(checked, part)
        now = self._clock()
        tally = Tally.of(one.outcome for one in results)
        run = Run(
            id=secrets.token_hex(8),
            tenant=tenant,
            target=request.target,
            suite=request.suite,
            seed=request.seed,
            digest=request.digest,
            state=RunState.ENDED,
            cases=len(results),
            counts=dict(tally.counts),
            worst=tally.worst,
            created_at=now,
            seen_at=now,
            ended_at=now,
            origin=Origin.REPORTED,
            tool=request.tool,
        )
        await kept.begin(run, results, kept=self.limits.runs)
        self._runs.changes[tenant] += 1
        return run

    async def _set(self, request: SetBaseline) -> Baseline:
        check_like("name", request.name, BASELINE)
        run = await self._runs.found(request.run)
        if run.state is RunState.RUNNING:
            raise malformed("run", given="an active run", allowed="one that has ended")
        baseline = Baseline(name=request.name, run=run.id, set_at=self._clock())
        kept = self._runs.kept.baselines
        await kept.set(caller().tenant, baseline, limit=self.limits.baselines)
        return baseline

    async def _delete(self, request: DeleteBaseline) -> Baseline:
        check_like("name", request.name, BASELINE)
        kept, tenant = self._runs.kept.baselines, caller().tenant
        baseline = await kept.get(tenant, request.name)
        if baseline is None:
            allowed = "a baseline of the caller's tenant"
            raise HandleNotFound("baseline", request.name, allowed=allowed)
        await kept.delete(tenant, request.name)
        return baseline

    async def _compare(self, request: CompareRuns) -> RunChanges:
        before, now = await self._runs.found(request.before), await self._runs.found(request.now)
        older, newer = await self._outcomes(before), await self._outcomes(now)
        # For 20,000 cases this takes some 30 ms.
        found = await asyncio.to_thread(compare, older, newer)
        return RunChanges(
            before=self._runs.info(before),
            now=self._runs.info(now),
            same_suite=found.same_suite,
            new_failures=found.new_failures,
            fixed=found.fixed,
            newly_skipped=found.newly_skipped,
            drifts=found.drifts,
            missing=found.missing,
        )

    async def _outcomes(self, run: Run) -> Outcomes:
        return Outcomes(digest=run.digest, by_case=await self._runs.kept.outcomes(run.id))
