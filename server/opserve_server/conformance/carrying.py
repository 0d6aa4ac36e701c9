"""A run of a suite at work: its cases tried one after the other, and what comes of them kept."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from opserve_kernels.cases.case import Case
from opserve_kernels.verdict.judge_case import Standards
from opserve_kernels.verdict.verdict import Status
from opserve_server.conformance import tasks
from opserve_server.conformance.arbiter import Arbiter
from opserve_server.conformance.desk import Desk, to_its_end
from opserve_server.conformance.trial import tried, unjudged
from opserve_server.core.errors import (
    InvalidArgument,
    OpserveError,
    StoreUnavailable,
    service_drains,
)
from opserve_server.core.leases import Lease, leased
from opserve_server.core.principal import Principal
from opserve_server.core.runs import CaseResult, Run, RunState, Stage
from opserve_server.core.service import Service
from opserve_server.store.runs import Runs as KeptRuns

_PART = 64  # cases that are asked for at once
_WRITE_INTERVAL_S = 1.0

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class LiveRun:
    """A run at work.

    Attributes:
        run: As it is now.
        principal: Who began it.
        standards: Told beside the layers.
        stage: What is done of it.
        case: The one at work, its id; empty while none is.
        counts: Cases by status.
        unwritten: Results that the store lacks, by their places.
        cut: What it is to be, since it was told to end; None before.
        ended: Done at its end.
    """

    run: Run
    principal: Principal
    standards: Standards
    stage: Stage = Stage.WAITING
    case: str = ""
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
        """Every case, in the suite's order, in a session for each profile."""
        place, total, written_at = 0, 1, self._clock()
        async with AsyncExitStack() as stack:
            leases: dict[str, Lease | str] = {}
            while place < total:
                async with self._desk.turn(live.run.tenant):
                    live.stage = Stage.MAKING_SUITE
                    part = await self._desk.do(tasks.part_of, live.run, place, _PART)
                total = part.total
                live.run = replace(live.run, cases=total, digest=part.digest)
                live.stage = Stage.TRYING
                for case in part.cases:
                    if self._service.draining:
                        raise service_drains("run")
                    self._note(live, place, await self._tried(live, stack, leases, case))
                    place += 1
                    if self._clock() - written_at >= _WRITE_INTERVAL_S:
                        await to_its_end(self._write(live, kept))
                        written_at = self._clock()

    async def _tried(
        self, live: LiveRun, stack: AsyncExitStack, leases: dict[str, Lease | str], case: Case
    ) -> CaseResult:
        live.case = case.id
        if case.profile not in leases:
            leases[case.profile] = await self._leased(live, stack, case.profile)
        lease = leases[case.profile]
        sought = self._arbiter.sought(case, live.run.seed, live.standards)
        if isinstance(lease, str):
            return unjudged(case, Status.UNIMPLEMENTED, lease, sought.contract)
        async with self._desk.turn(live.run.tenant):
            return await tried(self._arbiter, self._desk, lease, sought, live.run.repeats)

    async def _leased(self, live: LiveRun, stack: AsyncExitStack, profile: str) -> Lease | str:
        """A session until the stack ends; why there is none, where no device has the profile."""
        try:
            lease = await stack.enter_async_context(leased(self._service, live.principal, profile))
        except InvalidArgument as error:
            return error.message
        lease.set_deterministic_level(live.run.deterministic_level)
        return lease

    def _note(self, live: LiveRun, place: int, result: CaseResult) -> None:
        live.counts[result.status] += 1
        live.unwritten.append((place, result))
        worst = live.run.worst
        if result.status == Status.PASSED:
            worst = max(worst, result.worst)
        live.run = replace(live.run, counts=dict(live.counts), worst=worst)

    async def _write(self, live: LiveRun, kept: KeptRuns) -> None:
        live.run = replace(live.run, seen_at=self._clock())
        await kept.add(live.run, live.unwritten)
        live.unwritten.clear()
