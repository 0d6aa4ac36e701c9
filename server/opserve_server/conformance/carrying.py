"""A run of a suite at work: its cases tried, a few at once, and what comes of them kept."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from opserve_kernels.cases.case import Case
from opserve_kernels.operator import DocumentedRules
from opserve_kernels.verdict.case_result import CaseResult
from opserve_kernels.verdict.judge_case import Standards
from opserve_kernels.verdict.verdict import Status
from opserve_server.calls import caller
from opserve_server.conformance import tasks
from opserve_server.conformance.arbiter import Arbiter
from opserve_server.conformance.calls import RunSuite
from opserve_server.conformance.definitions import Unreadable
from opserve_server.conformance.desk import Desk, TurnByTurn
from opserve_server.conformance.tasks import Part, Sought
from opserve_server.conformance.trial import Trial, unjudged
from opserve_server.core.asking import SessionRequest
from opserve_server.core.errors import (
    InvalidArgument,
    LimitExceeded,
    OpserveError,
    StoreUnavailable,
    service_drains,
)
from opserve_server.core.leases import leased
from opserve_server.core.principal import Principal
from opserve_server.core.runs import Run, RunState, Stage
from opserve_server.core.service import Service
from opserve_server.core.waiting import to_its_end
from opserve_server.store.runs import Runs as KeptRuns

UNDER_WAY_LIMIT = 2
"""Cases of a run at once: while a device has one, the other is drawn or judged."""
_PART = 64  # cases that are asked for at once
_WRITE_INTERVAL_S = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class UnderWay:
    """A case that is being tried.

    Attributes:
        sought: The case.
        trial: What it is tried with; why it cannot be, where no device has its profile.
        task: Comes to its result.
    """

    sought: Sought
    trial: Trial | str
    task: asyncio.Task[CaseResult]


@dataclass(slots=True, eq=False)
class LiveRun:
    """A run at work.

    Attributes:
        run: As it is now.
        principal: Who began it.
        standards: Told beside the layers.
        own: The cases, if the caller defined them.
        began: Whether it is carried out yet.
        stage: What is done of it.
        under_way: The cases at work, in the suite's order.
        counts: Cases by status.
        unwritten: Results that the store lacks, by their places.
        cut: What it is to be, since it was told to end; None before.
        ended: Done at its end.
    """

    run: Run
    principal: Principal
    standards: Standards
    own: Part | None = None
    began: bool = False
    stage: Stage = Stage.WAITING
    under_way: deque[UnderWay] = field(default_factory=deque[UnderWay])
    counts: Counter[str] = field(default_factory=Counter[str])
    unwritten: list[tuple[int, CaseResult]] = field(default_factory=list[tuple[int, CaseResult]])
    cut: RunState | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Carrier:
    """Carries out runs.

    Args:
        service: With the devices.
        desk: Where is drawn and judged.
        arbiter: Knows what must come out.
        clock: Seconds since 1970.
    """

    def __init__(
        self, service: Service, desk: Desk, arbiter: Arbiter, clock: Callable[[], float]
    ) -> None:
        self._service, self._desk, self._arbiter, self._clock = service, desk, arbiter, clock

    async def own_of(self, asked: RunSuite, documented_rules: DocumentedRules) -> Part:
        """The cases of a run that the caller defines.

        Raises:
            InvalidArgument: 100000, a definition is none, or of a call that does not do what it
                says.
        """
        async with self._desk.turn(caller().tenant):
            found = await self._desk.do(tasks.part_of_own, asked, documented_rules)
        if isinstance(found, Unreadable):
            raise found.refusal
        return found

    async def carry_out(self, live: LiveRun, kept: KeptRuns) -> None:
        """Brings a run to its end, whatever that is."""
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

    async def _try_all(self, live: LiveRun, kept: KeptRuns) -> None:
        """Every case, a few at once, in a session for each profile."""
        async with AsyncExitStack() as stack:
            trials: dict[str, Trial | str] = {}
            try:
                async for case in self._cases_of(live):
                    if len(live.under_way) == UNDER_WAY_LIMIT:
                        await self._end_first(live, kept)
                    if case.profile not in trials:
                        trials[case.profile] = await self._trial_on(case.profile, live, stack)
                    live.under_way.append(self._begun(case, trials[case.profile], live))
                while live.under_way:
                    await self._end_first(live, kept)
            finally:
                left = [one.task for one in live.under_way]
                for task in left:
                    task.cancel()
                await asyncio.gather(*left, return_exceptions=True)

    async def _cases_of(self, live: LiveRun) -> AsyncGenerator[Case]:
        """The cases that are chosen, in the suite's order."""
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

    async def _part_of(self, live: LiveRun, place: int) -> Part:
        async with self._desk.turn(live.run.tenant):
            live.stage = Stage.TRYING if place else Stage.MAKING_SUITE
            return await self._desk.do(tasks.part_of, live.run, place, _PART)

    def _begun(self, case: Case, trial: Trial | str, live: LiveRun) -> UnderWay:
        sought = self._arbiter.sought(case, live.run.seed, live.standards)
        return UnderWay(sought, trial, asyncio.create_task(_tried(trial, sought)))

    async def _end_first(self, live: LiveRun, kept: KeptRuns) -> None:
        """Waits for the result of the case that is at work for longest, and notes it."""
        first = live.under_way[0]
        try:
            result = await first.task
        except LimitExceeded:  # beside the others there may have been no room for it
            await asyncio.wait([one.task for one in live.under_way])
            result = await _tried(first.trial, first.sought)
        live.under_way.popleft()
        self._note(live, result)
        if self._clock() - live.run.seen_at >= _WRITE_INTERVAL_S:
            await to_its_end(self._write(live, kept))

    async def _trial_on(self, profile: str, live: LiveRun, stack: AsyncExitStack) -> Trial | str:
        """Its session lasts until the stack ends; why there is none, where no device has it."""
        try:
            asked = SessionRequest(
                profile=profile,
                accuracy=live.run.accuracy.value,
                documented_rules=live.run.documented_rules.value,
            )
            lease = await stack.enter_async_context(leased(self._service, live.principal, asked))
        except InvalidArgument as error:
            return error.message
        lease.set_deterministic_level(live.run.deterministic_level)
        desk = TurnByTurn(self._desk, live.run.tenant)
        return Trial(
            arbiter=self._arbiter,
            desk=desk,
            lease=lease,
            documented_rules=live.run.documented_rules,
            repeats=live.run.repeats,
        )

    def _note(self, live: LiveRun, result: CaseResult) -> None:
        live.unwritten.append((live.counts.total(), result))
        live.counts[result.status] += 1
        worst = live.run.worst
        if result.status == Status.PASSED:
            worst = max(worst, result.worst)
        live.run = replace(live.run, counts=dict(live.counts), worst=worst)

    async def _write(self, live: LiveRun, kept: KeptRuns) -> None:
        live.run = replace(live.run, seen_at=self._clock())
        await kept.add(live.run, live.unwritten)
        live.unwritten.clear()


async def _tried(trial: Trial | str, sought: Sought) -> CaseResult:
    if isinstance(trial, str):
        return unjudged(sought, Status.UNIMPLEMENTED, trial)
    return await trial.run(sought)
