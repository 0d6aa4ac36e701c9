"""Judges a kernel of faulty/ on cases in this process, against our `reference` kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from conformance.faulty.kernel import Kernel, leave, run
from opserve_kernels.cases.arrays import Placed, arrays_of, placed_in
from opserve_kernels.cases.case import Case
from opserve_kernels.status import AnyStatus
from opserve_kernels.verdict.judge_case import Arrays, Expected, Results, judge_case, judge_code
from opserve_kernels.verdict.verdict import Code, Status, Verdict

REPEATS = 2
ExpectedByOutput = Mapping[str, Expected]
Memory = Mapping[str, Placed]
_RIGHT = (Status.PASSED, Status.MISTRUSTED)  # the second one is about the case


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The outcome of a kernel on a case.

    Attributes:
        code: That it refused a call with that must be refused.
        before: The tensors before each of REPEATS calls; none of one that must be refused.
        after: Behind each of them.
    """

    code: AnyStatus | None = None
    before: Memory = field(default_factory=dict[str, Placed])
    after: Sequence[Memory] = ()

    def trace(self) -> object:
        """All that can be seen of it, bit by bit."""
        left = [placed.storage.tobytes() for one in self.after for placed in one.values()]
        return self.code, left


def memory_of(case: Case, seed: int) -> Memory:
    """The tensors before a call; none of one that must be refused."""
    return {} if case.is_refused else arrays_of(case, seed)


def attempt(kernel: Kernel, case: Case, before: Memory) -> Attempt:
    """Runs a kernel on copies of the tensors."""
    if case.is_refused:
        return Attempt(code=kernel.refuse(case))
    after = [_after(kernel, case, before, 0)]
    for turn in range(1, REPEATS):
        repeats = kernel.leave is leave  # nothing else depends on the turn
        after.append(after[0] if repeats else _after(kernel, case, before, turn))
    return Attempt(before=before, after=after)


def _after(kernel: Kernel, case: Case, before: Memory, turn: int) -> Memory:
    memory = copied(case, before)
    run(kernel, case, memory, turn)
    return memory


def copied(case: Case, memory: Memory) -> Memory:
    """The same tensors in memory of their own."""
    return placed_in(case, {name: placed.storage.copy() for name, placed in memory.items()})


def verdict_of(case: Case, expected: ExpectedByOutput, made: Attempt) -> Verdict:
    """Its verdict."""
    if case.is_refused:
        return judge_code(case, None if made.code is None else Code(name=made.code.name), "")
    outputs = [{name: memory[name].elements for name in case.written} for memory in made.after]
    before, after = _storages(made.before), _storages(made.after[0])
    results = Results(outputs=outputs, before=before, after=after)
    return judge_case(case, results, expected=expected, contract="")


def findings(verdict: Verdict) -> set[str]:
    """The layers and checks that complain: "status" is of a call's code."""
    refused = verdict.refusal is not None and verdict.refusal.status is not Status.PASSED
    layers = (layer for output in verdict.outputs for layer in output.layers)
    return {
        *(["status"] if refused else []),
        *(layer.name for layer in layers if layer.gate and not layer.passed),
        *(check.name for check in verdict.checks if check.status not in _RIGHT),
    }


def _storages(memory: Memory) -> Arrays:
    return {name: placed.storage for name, placed in memory.items()}
