"""Judges a kernel of faulty/ on cases, in this process: goldens are our `reference` kernels'."""

from collections.abc import Mapping

from conformance.faulty.kernel import Kernel, run
from kernels.cases.runs import Array, golden_of, judged
from opserve_kernels.cases.arrays import Placed, arrays_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import unwritten
from opserve_kernels.cases.sums import sums_of
from opserve_kernels.verdict.checks import (
    check_gaps,
    check_repeats,
    check_untouched,
    check_written,
    reached_by,
)
from opserve_kernels.verdict.judge import conclude, judge_refusal
from opserve_kernels.verdict.verdict import Check, Code, Status, Verdict

REPEATS = 2
Golden = Mapping[str, tuple[Array, Array]]
Memory = Mapping[str, Placed]


def golden_for(case: Case, seed: int) -> Golden:
    """Golden values and magnitudes by output; none for a call that must be refused."""
    return {} if case.is_refused else golden_of(case, seed)


def verdict_of(case: Case, seed: int, golden: Golden, kernel: Kernel) -> Verdict:
    """What is said of a kernel that runs a case REPEATS times, or refuses it."""
    if case.is_refused:
        given = kernel.refuse(case)
        code = None if given is None else Code(name=given.name)
        refusal = judge_refusal(Code(name=case.expect), code)
        return conclude(case.id, contract="", refusal=refusal)
    before, *after = (arrays_of(case, seed) for _ in range(REPEATS + 1))
    for turn, memory in enumerate(after):
        run(kernel, case, memory, turn)
    return conclude(
        case.id,
        contract="",
        outputs=judged(golden, {n: after[0][n].elements for n in case.written}, sums_of(case)),
        checks=_checks(case, golden, before, after),
    )


def findings(verdict: Verdict) -> set[str]:
    """The layers and checks that complain: "status" is of a call's code."""
    refused = verdict.refusal is not None and verdict.refusal.status is not Status.PASSED
    layers = (layer for output in verdict.outputs for layer in output.layers)
    return {
        *(["status"] if refused else []),
        *(layer.name for layer in layers if layer.gate and not layer.passed),
        *(check.name for check in verdict.checks if check.status is not Status.PASSED),
    }


def _checks(case: Case, golden: Golden, before: Memory, after: list[Memory]) -> list[Check]:
    found: list[Check] = []
    for name, tensor in case.tensors.items():
        old, new = before[name].storage, after[0][name]
        if name not in case.written:
            found.append(check_untouched(name, old, new.storage))
            continue
        described = tensor.tensor()
        strides = described.element_strides
        reached = reached_by(old.size, tensor.shape, strides, tensor.offset)
        unset = unwritten(1, tensor.dtype)
        found += [
            check_written(name, new.elements, golden[name][0], unset),
            check_gaps(name, old, new.storage, reached),
            check_repeats(name, [memory[name].elements for memory in after]),
        ]
    return found
