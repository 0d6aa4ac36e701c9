"""Suite runs on devices of this service: long operations that outlive their first call."""

import asyncio
import logging
import re
import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, assert_never

from opserve_kernels.algorithms.host import VARIANT
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals.warned import BrokenRule
from opserve_kernels.conformance.expected import Task
from opserve_kernels.conformance.record import CaseResult, Tally, result_of
from opserve_kernels.conformance.trial import Trial, unjudged
from opserve_kernels.operator import DocumentedRules, variant_on
from opserve_kernels.profiles import PROFILES
from opserve_kernels.status import Status as Code
from opserve_kernels.verdict.judge_case import Standards, standards_of
from opserve_kernels.verdict.verdict import Status
from opserve_server.calls import caller, malformed
from opserve_server.conformance import tasks
from opserve_server.conformance.answers import OneRun, ResultPage, RunInfo, RunPage, StatusCount
from opserve_server.conformance.calls import (
    CancelRun,
    GetRun,
    ListResults,
    ListRuns,
    OfRun,
    RunSuite,
)
from opserve_server.conformance.execution import LeasedDevice
from opserve_server.conformance.reference import ReferenceDevice
from opserve_server.conformance.request_checks import (
    BASELINE,
    RUN,
    TARGET,
    check_like,
    check_own_suite,
    check_suite,
    page_limit,
    selection_of,
)
from opserve_server.conformance.tasks import Part
from opserve_server.conformance.workers import ConformanceWorkers, TenantWorkers
from opserve_server.core.errors import (
    HandleNotFound,
    InvalidArgument,
    LimitExceeded,
    NotSupported,
    OpserveError,
    StoreUnavailable,
    service_drains,
)
from opserve_server.core.leases import leased
from opserve_server.core.principal import Principal
from opserve_server.core.results import RuleWarning
from opserve_server.core.runs import Origin, Run, RunState, Stage
from opserve_server.core.service import DeterministicLevel, Service
from opserve_server.core.session_request import SessionRequest, accuracy_of, documented_rules_of
from opserve_server.core.waiting import to_its_end

if TYPE_CHECKING:  # for services with a store alone; see store_synchronisation.py
    from opserve_server.store.runs import Runs as KeptRuns

RUNS, RUNS_LIMIT = 20, 200
"""Runs of a page: the default and the maximum."""
RESULTS, RESULTS_LIMIT = 100, 1000
WAIT_LIMIT_S = 60.0
REPEATS_LIMIT = 10
_LEVEL = DeterministicLevel.OFF
"""Default level, that of a session opened without terms."""
_LOST_AFTER_S = 600.0
"""Seconds without a write after which a run of another process of the service is over."""
ACTIVE_TRIALS_LIMIT = 2
"""Cases of a run in progress: while a device runs one, another is drawn or judged."""
_PART = 64  # cases requested at once
_WRITE_INTERVAL_S = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class ActiveTrial:
    """A case that is being tried.

    Attributes:
        wanted: The case, and how it is judged.
        trial: Its trial; or the reason without one, where no device has its profile.
        task: Returns its result.
    """

    wanted: Task
    trial: Trial | str
    task: asyncio.Task[CaseResult]


@dataclass(slots=True, eq=False)
class ActiveRun:
    """A run in progress.

    Attributes:
        run: Its current record.
        principal: The caller that started it.
        standards: Reported beside the layers.
        own: The cases, if the caller defined them.
        began: Whether its execution has begun.
        stage: Current stage.
        active_trials: The cases in progress, in the suite's order.
        tally: Counts of the judged cases.
        unwritten: Results not yet in the store, by position.
        cut: Its final state, since its end was requested; None before.
        ended: Set at its end.
    """

    run: Run
    principal: Principal
    standards: Standards
    own: Part | None = None
    began: bool = False
    stage: Stage = Stage.WAITING
    active_trials: deque[ActiveTrial] = field(default_factory=deque[ActiveTrial])
    tally: Tally = field(default_factory=Tally)
    unwritten: list[tuple[int, CaseResult]] = field(default_factory=list[tuple[int, CaseResult]])
    cut: RunState | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class SuiteRuns:
    """Runs of suites, those in progress and those in the store.

    Args:
        service: The core with the devices.
        workers: Processes that draw inputs and judge outputs.
        reference: Device for expected values.
        kept: Runs in the store; None without a store, and without runs.
        runs_limit: Active runs of one tenant.
        kept_limit: Stored runs of one tenant.
        clock: Seconds since 1970.

    Attributes:
        changes: Numbers of runs that were added or ended, by tenant.
    """

    def __init__(  # noqa: PLR0913  # each by its name
        self,
        service: Service,
        workers: ConformanceWorkers,
        reference: ReferenceDevice,
        kept: "KeptRuns | None",
        *,
        runs_limit: int,
        kept_limit: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._service, self._known_kept = service, kept
        self._runs_limit, self._kept_limit = runs_limit, kept_limit
        self._clock = clock
        self._executor = RunExecutor(service, workers, reference, clock)
        self._live: dict[str, ActiveRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.changes = Counter[str]()

    async def run(self, request: OfRun) -> OneRun | RunPage | ResultPage:
        """Executes a call.

        Raises:
            HandleNotFound: 107017, the tenant has no such run.
            LimitExceeded: 207012, too many runs of the tenant are active.
            InvalidArgument: 100000, a value is out of bounds.
            NotSupported: 200001, the service has no store.
            StoreUnavailable: 507901, the store does not answer.
        """
        match request:
            case RunSuite():
                return OneRun(run=await self._begin(request))
            case GetRun():
                return OneRun(run=self.info(await self._waited(request)))
            case CancelRun():
                return OneRun(run=self.info(await self._cancel(request)))
            case ListRuns():
                return await self._runs(request)
            case ListResults():
                return await self._results(request)
            case _:
                assert_never(request)

    async def stop(self) -> None:
        """Ends the active runs; their results are kept."""
        at_work = list(self._live.values())
        for live in at_work:
            self._cut(live, RunState.INTERRUPTED)
        for live in at_work:
            await live.ended.wait()

    @property
    def kept(self) -> "KeptRuns":
        """Runs in the store.

        Raises:
            NotSupported: 200001, there is no store.
        """
        if self._known_kept is None:
            raise NotSupported(
                Code.ACL_ERROR_API_NOT_SUPPORT,
                "This service has no store, so it keeps no runs of suites: set OPSERVE_STORE_URL "
                "for it.",
                parameter="runs of suites",
                given="a service without a store",
                allowed="one with a store",
            )
        return self._known_kept

    async def _begin(self, request: RunSuite) -> RunInfo:
        """Starts a run; returns its state before its first step."""
        _check(request)
        documented_rules = documented_rules_of(request.documented_rules)
        own = (
            await self._executor.own_of(request, documented_rules) if request.definitions else None
        )
        standards = standards_of(request.standards, request.gates)
        principal = caller()
        own_runs = [live for live in self._live.values() if live.run.tenant == principal.tenant]
        if len(own_runs) >= self._runs_limit:
            raise _too_many(len(own_runs), self._runs_limit)
        if self._service.draining:
            raise service_drains("run")
        now = self._clock()
        run = Run(
            id=secrets.token_hex(8),
            tenant=principal.tenant,
            target=request.target,
            suite=request.suite,
            seed=request.seed,
            profile=request.profile,
            operator=request.operator,
            match=request.match,
            repeats=request.repeats or 1,
            standards=standards.reported,
            gates=standards.gates,
            deterministic_level=DeterministicLevel(request.deterministic_level or _LEVEL),
            accuracy=accuracy_of(request.accuracy),
            documented_rules=documented_rules,
            kernel_variant=_variant_of(request.profile),
            counts={},
            created_at=now,
            seen_at=now,
        )
        live = ActiveRun(run, principal, standards, own)
        info, kept = _run_info(run, live), self.kept
        self._live[run.id] = live  # in the same iteration of the loop as the check of the limit
        await to_its_end(self._start(live, kept))
        return info

    async def _start(self, live: ActiveRun, kept: "KeptRuns") -> None:
        """Stores the run and executes it, even if the caller has disconnected by then."""
        try:
            await kept.begin(live.run, kept=self._kept_limit)
        except BaseException:
            del self._live[live.run.id]
            live.ended.set()
            raise
        self.changes[live.run.tenant] += 1
        self._tasks[live.run.id] = asyncio.create_task(self._execute(live, kept))

    async def _waited(self, request: GetRun) -> Run:
        if not 0 <= request.wait_s <= WAIT_LIMIT_S:
            raise malformed("wait_s", given=request.wait_s, allowed=f"0 to {WAIT_LIMIT_S:g}")
        live = self._run_of_caller(request.run)
        if live is not None and request.wait_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(live.ended.wait(), request.wait_s)
        return await self.found(request.run)

    async def _cancel(self, request: CancelRun) -> Run:
        live = self._run_of_caller(request.run)
        if live is not None:
            self._cut(live, RunState.CANCELLED)
            await live.ended.wait()
        return await self.found(request.run)

    def _cut(self, live: ActiveRun, state: RunState) -> None:
        """Requests a run's end, once: a second cancellation would keep its end out of the store."""
        if live.cut is None and live.run.state is RunState.RUNNING:
            live.cut = state
            if live.began:
                self._tasks[live.run.id].cancel()

    async def _runs(self, request: ListRuns) -> RunPage:
        limit = page_limit(request.limit, RUNS, most=RUNS_LIMIT)
        before = await self.found(request.cursor) if request.cursor else None
        if request.target:
            check_like("target", request.target, TARGET)
        tenant = caller().tenant
        runs = await self.kept.of(tenant, target=request.target, before=before, limit=limit + 1)
        page = [self.current(run) for run in runs[:limit]]
        cursor = page[-1].id if len(runs) > limit else ""
        return RunPage(runs=[self.info(run) for run in page], cursor=cursor)

    async def newest(self, tenant: str) -> Sequence[Run]:
        """The runs of the first page of a tenant, as they are stored."""
        return await self.kept.of(tenant, target="", before=None, limit=RUNS)

    async def _results(self, request: ListResults) -> ResultPage:
        limit = page_limit(request.limit, RESULTS, most=RESULTS_LIMIT)
        if request.status and request.status not in set(Status):
            raise malformed("status", given=request.status, allowed=", ".join(Status))
        after = int(request.cursor) if re.fullmatch("[0-9]{1,9}", request.cursor) else -1
        if request.cursor and after < 0:
            raise malformed("cursor", given=request.cursor, allowed="the cursor of a page")
        run = await self.found(request.run)
        found = await self.kept.results(run.id, status=request.status, after=after, limit=limit)
        last = found[-1][0] if found else after
        more = await self.kept.results(run.id, status=request.status, after=last, limit=1)
        cursor = str(last) if more else ""
        return ResultPage(results=[result for _, result in found], cursor=cursor)

    def _run_of_caller(self, run: str) -> ActiveRun | None:
        live = self._live.get(run)
        return live if live is not None and live.run.tenant == caller().tenant else None

    async def found(self, run: str) -> Run:
        """A run of the caller's tenant, by its id or a baseline's name.

        Raises:
            HandleNotFound: 107017, there is none.
        """
        tenant, kept = caller().tenant, self.kept
        baseline = None
        if BASELINE.fullmatch(run):
            baseline = await kept.baselines.get(tenant, run)
        run_id = run if baseline is None else baseline.run
        live = self._run_of_caller(run_id)
        if live is not None:
            return live.run
        found = await kept.get(tenant, run_id) if RUN.fullmatch(run_id) else None
        if found is None:
            allowed = "a run or baseline of the caller's tenant"
            raise HandleNotFound("run", run[:64], allowed=allowed)
        return self.current(found)

    def current(self, run: Run) -> Run:
        """Corrects a stored run that is marked as running although no process executes it."""
        live = self._live.get(run.id)
        if live is not None:
            return live.run
        lost = run.state is RunState.RUNNING and self._clock() - run.seen_at > _LOST_AFTER_S
        return replace(run, state=RunState.INTERRUPTED) if lost else run

    def info(self, run: Run) -> RunInfo:
        """A run of the caller's tenant, as both APIs return it."""
        live = self._live.get(run.id) if run.state is RunState.RUNNING else None
        return _run_info(run, live)

    async def _execute(self, live: ActiveRun, kept: "KeptRuns") -> None:
        task = self._tasks[live.run.id]
        live.began = True
        if live.cut is not None:
            task.cancel()  # cancelled before its first step it would never end
        try:
            await self._executor.execute(live, kept)
        finally:
            del self._live[live.run.id], self._tasks[live.run.id]
            self.changes[live.run.tenant] += 1


def _check(request: RunSuite) -> None:
    if request.definitions:
        check_own_suite(request)
    else:
        check_suite(request.suite, request.seed)
    selection_of(request)
    check_like("target", request.target, TARGET)
    if request.profile and request.profile not in PROFILES:
        raise malformed("profile", given=request.profile, allowed=", ".join(PROFILES))
    if not 0 <= request.repeats <= REPEATS_LIMIT:
        raise malformed("repeats", given=request.repeats, allowed=f"0 to {REPEATS_LIMIT}")
    level = request.deterministic_level
    if level and level not in set(DeterministicLevel):
        raise malformed("deterministic_level", given=level, allowed=", ".join(DeterministicLevel))


def _variant_of(profile: str) -> str:
    """The kernel variant of a run's devices; without a profile, of those that have one."""
    return variant_on(PROFILES[profile]) if profile else VARIANT.name


def _too_many(given: int, allowed: int) -> LimitExceeded:
    return LimitExceeded(
        Code.ACL_ERROR_RT_OVER_LIMIT,
        f"This tenant has {given} active runs, and the limit is {allowed}: wait for one, or cancel "
        "it.",
        parameter="run",
        given=f"another beside {given} at work",
        allowed=allowed,
    )


def _run_info(run: Run, live: ActiveRun | None) -> RunInfo:
    is_ours = run.origin is Origin.DEVICE
    return RunInfo(
        id=run.id,
        target=run.target,
        suite=run.suite,
        seed=run.seed,
        digest=run.digest,
        profile=run.profile,
        operator=run.operator,
        match=run.match,
        state=run.state.value,
        reason=run.reason,
        cases=run.cases,
        judged=sum(run.counts.values()),
        counts=[StatusCount(status=name, cases=n) for name, n in sorted(run.counts.items())],
        worst=run.worst,
        created_at=run.created_at,
        ended_at=run.ended_at,
        repeats=run.repeats if is_ours else 0,
        standards=run.standards,
        gates=run.gates,
        deterministic_level=run.deterministic_level.value if is_ours else "",
        accuracy=run.accuracy.value if is_ours else "",
        documented_rules=run.documented_rules.value if is_ours else "",
        stage="" if live is None else live.stage.value,
        case=live.active_trials[0].wanted.case.id
        if live is not None and live.active_trials
        else "",
        origin=run.origin.value,
        tool=run.tool,
        kernel_variant=run.kernel_variant,
    )


class RunExecutor:
    """Executes runs.

    Args:
        service: The core with the devices.
        workers: Processes that draw inputs and judge outputs.
        reference: Device for expected values.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        service: Service,
        workers: ConformanceWorkers,
        reference: ReferenceDevice,
        clock: Callable[[], float],
    ) -> None:
        self._service, self._workers, self._reference, self._clock = (
            service,
            workers,
            reference,
            clock,
        )

    async def own_of(self, request: RunSuite, documented_rules: DocumentedRules) -> Part:
        """The cases of a run that the caller defines.

        Raises:
            InvalidArgument: 100000, a definition is invalid, or its call does not have the stated
                outcome.
        """
        async with self._workers.turn(caller().tenant):
            return await self._workers.do(tasks.part_of_own, request, documented_rules)

    async def execute(self, live: ActiveRun, kept: "KeptRuns") -> None:
        """Executes a run to its end, whatever its outcome."""
        state, reason = RunState.ENDED, ""
        try:
            await self._try_all(live, kept)
        except asyncio.CancelledError:
            state = live.cut or RunState.INTERRUPTED
        except OpserveError as error:
            cut = self._service.draining
            state = RunState.INTERRUPTED if cut else RunState.FAILED
            reason = "the service ended" if cut else error.message
        except Exception:
            log.exception("run %s failed", live.run.id)
            state, reason = RunState.FAILED, "internal error"
        try:
            live.run = replace(live.run, state=state, reason=reason, ended_at=self._clock())
            await self._write(live, kept)
        except StoreUnavailable:
            log.warning("the end of run %s is not in the store", live.run.id)
        finally:
            live.ended.set()

    async def _try_all(self, live: ActiveRun, kept: "KeptRuns") -> None:
        """Tries every case, a few at once, in a session for each profile."""
        async with AsyncExitStack() as stack:
            trials: dict[str, Trial | str] = {}
            try:
                async for case in self._cases_of(live):
                    if len(live.active_trials) == ACTIVE_TRIALS_LIMIT:
                        await self._end_first(live, kept)
                    if case.profile not in trials:
                        trials[case.profile] = await self._trial_on(case.profile, live, stack)
                    live.active_trials.append(self._start_trial(case, trials[case.profile], live))
                while live.active_trials:
                    await self._end_first(live, kept)
            finally:
                left = [one.task for one in live.active_trials]
                for task in left:
                    task.cancel()
                await asyncio.gather(*left, return_exceptions=True)

    async def _cases_of(self, live: ActiveRun) -> AsyncGenerator[Case]:
        """The selected cases, in the suite's order."""
        place, total = 0, 1
        while place < total:
            part = live.own or await self._part_of(live, place)
            total = part.total
            live.run = replace(live.run, cases=total, digest=part.digest)
            live.stage = Stage.TRYING
            for case in part.cases:
                if self._service.draining:
                    raise service_drains("run")
                yield case
            place += len(part.cases)

    async def _part_of(self, live: ActiveRun, place: int) -> Part:
        async with self._workers.turn(live.run.tenant):
            live.stage = Stage.TRYING if place else Stage.MAKING_SUITE
            return await self._workers.do(tasks.part_of, live.run, place, _PART)

    def _start_trial(self, case: Case, trial: Trial | str, live: ActiveRun) -> ActiveTrial:
        wanted = self._reference.task(case, live.run.seed, live.standards)
        return ActiveTrial(wanted, trial, asyncio.create_task(_record_of(trial, wanted)))

    async def _end_first(self, live: ActiveRun, kept: "KeptRuns") -> None:
        """Waits for the result of the oldest case in progress, and records it."""
        first = live.active_trials[0]
        try:
            result = await first.task
        except LimitExceeded:  # the other cases may have used up the limit
            await asyncio.wait([one.task for one in live.active_trials])
            result = await _record_of(first.trial, first.wanted)
        live.active_trials.popleft()
        self._note(live, result)
        if self._clock() - live.run.seen_at >= _WRITE_INTERVAL_S:
            await to_its_end(self._write(live, kept))

    async def _trial_on(self, profile: str, live: ActiveRun, stack: AsyncExitStack) -> Trial | str:
        """A trial whose session lasts until the stack ends; or the reason without one."""
        try:
            request = SessionRequest(
                profile=profile,
                accuracy=live.run.accuracy.value,
                documented_rules=live.run.documented_rules.value,
                here=True,  # the run is in this process
            )
            lease = await stack.enter_async_context(leased(self._service, live.principal, request))
        except InvalidArgument as error:
            return error.message
        lease.set_deterministic_level(live.run.deterministic_level)
        workers = TenantWorkers(self._workers, live.run.tenant)
        return Trial(
            target=LeasedDevice(lease=lease, check_size=self._reference.check_size),
            backend=self._reference.backend(workers, live.principal),
            warns=live.run.documented_rules is DocumentedRules.WARN,
            repeats=live.run.repeats,
        )

    def _note(self, live: ActiveRun, result: CaseResult) -> None:
        tally = live.tally
        live.unwritten.append((tally.counts.total(), result))
        tally.add(result.outcome)
        live.run = replace(live.run, counts=dict(tally.counts), worst=tally.worst)

    async def _write(self, live: ActiveRun, kept: "KeptRuns") -> None:
        live.run = replace(live.run, seen_at=self._clock())
        await kept.add(live.run, live.unwritten)
        live.unwritten.clear()


async def _record_of(trial: Trial | str, wanted: Task) -> CaseResult:
    if isinstance(trial, str):
        verdict = unjudged(wanted.case, wanted.contract, Status.UNIMPLEMENTED, trial)
        return result_of(verdict)
    tried = await trial.run(wanted)
    warnings = [_as_json(broken) for broken in tried.warnings]
    return result_of(tried.verdict, seconds=tried.seconds, warnings=warnings)


def _as_json(broken: BrokenRule) -> dict[str, Any]:
    assert isinstance(broken, RuleWarning), "a device of this service warned"
    return asdict(broken)
