"""Judges a kernel of faulty/ on cases, in this process: goldens are our `reference` kernels'."""

from collections.abc import Mapping

from conformance.faulty.kernel import Kernel, run
from opserve_kernels.cases.arrays import Placed, arrays_of
from opserve_kernels.cases.case import Case
from opserve_kernels.verdict.judge_case import Arrays, Golden, Results, judge_case, judge_code
from opserve_kernels.verdict.verdict import Code, Status, Verdict

REPEATS = 2
Goldens = Mapping[str, Golden]
Memory = Mapping[str, Placed]
_RIGHT = (Status.PASSED, Status.MISTRUSTED)  # the second one is about the case


def verdict_of(case: Case, seed: int, golden: Goldens, kernel: Kernel) -> Verdict:
    """What is said of a kernel that runs a case REPEATS times, or refuses it."""
    if case.is_refused:
        given = kernel.refuse(case)
        return judge_code(case, None if given is None else Code(name=given.name), "")
    before, *after = (arrays_of(case, seed) for _ in range(REPEATS + 1))
    for turn, memory in enumerate(after):
        run(kernel, case, memory, turn)
    outputs = [{name: memory[name].elements for name in case.written} for memory in after]
    results = Results(outputs=outputs, before=_storages(before), after=_storages(after[0]))
    return judge_case(case, results, golden=golden, contract="")


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
