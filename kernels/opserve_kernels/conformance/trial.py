"""The trial of a case: draw inputs, run the target as often as requested, judge.

Client and service share this code; each provides a target, and a backend that computes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar, assert_never

import numpy as np

from opserve_kernels.cases.arrays import inputs_in, memory_of, view_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.refusals.warned import BrokenRule, replaces_refusal
from opserve_kernels.conformance.expected import (
    Answer,
    CallGroup,
    ReferenceNeeded,
    Task,
    expected_values,
)
from opserve_kernels.conformance.target import Broken, Missing, Outcome, Ran, Refused, Target
from opserve_kernels.verdict.judge_case import (
    Arrays,
    Results,
    judge_case,
    judge_code,
    sized_outputs,
)
from opserve_kernels.verdict.verdict import Code, Status, Verdict

ResultT = TypeVar("ResultT")


class Backend(Protocol):
    """The computing side of a trial."""

    async def do(self, work: Callable[[], ResultT]) -> ResultT:
        """Returns the result of a function that draws or judges; another process may run it."""
        ...

    async def answers(self, calls: Sequence[CallGroup]) -> Sequence[Answer]:
        """Expected values, computed by a device of the profile `reference`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The result of a trial.

    Attributes:
        verdict: Verdict on the case.
        seconds: Duration of the shortest call; 0 without one.
        warnings: Broken rules of the vendor's page, for a call that was accepted nevertheless.
    """

    verdict: Verdict
    seconds: float = 0.0
    warnings: tuple[BrokenRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Tries cases; any number at once.

    Attributes:
        target: The target.
        backend: The backend for all other computation.
        warns: Whether the target accepts calls that break a rule of the vendor's page alone.
        repeats: Number of equal calls, whose bits must be equal.
    """

    target: Target
    backend: Backend
    warns: bool
    repeats: int = 1

    async def run(self, task: Task) -> Tried:
        """Tries a case."""
        case = task.case
        if reason := self.target.skips(case):
            return Tried(verdict=unjudged(case, task.contract, Status.SKIPPED, reason))
        if case.is_refused:
            return self._without_outputs(task, await self.target.run(case, {}, read=()))
        before = await self.backend.do(partial(memory_of, case, task.seed, task.recorded))
        runs = await self._runs(case, before)
        if not isinstance(runs, list):
            return self._without_outputs(task, runs)
        judge = partial(verdict_on_runs, before=before, runs=runs)
        return Tried(
            verdict=await settled(self.backend, task, judge),
            seconds=min(run.seconds for run in runs),
            warnings=runs[0].warnings,
        )

    async def _runs(self, case: Case, before: Arrays) -> list[Ran] | Refused | Missing | Broken:
        """Runs equal calls until one differs in bits from the first, then keeps only those two."""
        runs: list[Ran] = []
        for _ in range(self.repeats):
            outcome = await self.target.run(case, before, read=case.written if runs else before)
            if not isinstance(outcome, Ran):
                return outcome
            if not runs:
                runs.append(outcome)
            elif _is_same(case, runs[0], outcome):
                runs.append(replace(runs[0], seconds=outcome.seconds))
            else:
                return [*runs, outcome]
        return runs

    def _without_outputs(self, task: Task, outcome: Outcome) -> Tried:
        case, contract = task.case, task.contract
        match outcome:
            case Ran():
                return self._accepted(task, outcome)
            case Refused(code=code):
                return Tried(verdict=judge_code(case, code, contract))
            case Missing(reason=reason):
                return Tried(verdict=unjudged(case, contract, Status.UNIMPLEMENTED, reason))
            case Broken(reason=reason):
                return Tried(verdict=unjudged(case, contract, Status.ERROR, reason))
            case _:
                assert_never(outcome)

    def _accepted(self, task: Task, ran: Ran) -> Tried:
        """The result of an accepted call that must be rejected: a warning of its rule is enough."""
        codes = (
            Code(number=broken.code, name=broken.name)
            for broken in ran.warnings
            if replaces_refusal(task.case, broken, warns=self.warns)
        )
        code = next(codes, None)
        verdict = judge_code(task.case, code, task.contract)
        if code is not None:
            verdict = replace(verdict, reason=f"accepted with a warning of {code.text}")
        return Tried(verdict=verdict, warnings=ran.warnings)


def unjudged(case: Case, contract: str, status: Status, reason: str) -> Verdict:
    """The verdict on a case without outputs."""
    return Verdict(case=case.id, status=status, reason=reason, contract=contract)


async def settled(
    backend: Backend, task: Task, work: Callable[[Task], ResultT | ReferenceNeeded]
) -> ResultT:
    """Returns the result of work on a task, with the reference's results if it needs them."""
    found = await backend.do(partial(work, task))
    if isinstance(found, ReferenceNeeded):
        answered = replace(task, answers=await backend.answers(found.calls))
        found = await backend.do(partial(work, answered))
        assert not isinstance(found, ReferenceNeeded), "all was answered"
    return found


def verdict_on_runs(task: Task, before: Arrays, runs: Sequence[Ran]) -> Verdict | ReferenceNeeded:
    """The verdict on equal calls, of which the first has all memory that is known."""
    case = task.case
    outputs = [_outputs(case, run) for run in runs]
    results = Results(outputs=outputs, before=before, after=runs[0].storages)
    return verdict_on(task, partial(inputs_in, case, before), results)


def verdict_on(
    task: Task, inputs: Callable[[], Arrays], results: Results
) -> Verdict | ReferenceNeeded:
    """The verdict on the results of calls.

    Args:
        task: The case.
        inputs: Function that returns its inputs, on a cache miss.
        results: Results of the calls.
    """
    expected = expected_values(task, inputs, sized=sized_outputs(task.case))
    if isinstance(expected, ReferenceNeeded):
        return expected
    return judge_case(
        task.case, results, expected=expected, contract=task.contract, standards=task.standards
    )


def _outputs(case: Case, run: Ran) -> Arrays:
    if run.outputs is not None:
        return run.outputs
    return {name: view_of(run.storages[name], case.tensors[name]) for name in case.written}


def _is_same(case: Case, first: Ran, other: Ran) -> bool:
    """Whether calls wrote the same bits."""
    one, two = (run.storages if run.outputs is None else run.outputs for run in (first, other))
    return all(_has_same_bits(one.get(name), two.get(name)) for name in case.written)


def _has_same_bits(one: Array | None, two: Array | None) -> bool:
    """Compares without a copy of contiguous arrays: a service's event loop may wait for it."""
    if one is None or two is None:
        return one is two
    if (one.dtype, one.shape) != (two.dtype, two.shape) or one.dtype.hasobject:
        return False
    first, second = (np.ascontiguousarray(array).view(np.uint8) for array in (one, two))
    return np.array_equal(first, second)
