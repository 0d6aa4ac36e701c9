"""What of a suite sees each fault: cases where it shows, layers and checks that tell."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from conformance.faulty.faults import FAULTS
from conformance.faulty.kernel import OPERATORS, Kernel, run
from conformance.judging import REPEATS, findings, verdict_of
from kernels.cases.runs import golden_of
from opserve_kernels.cases.arrays import arrays_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.suites import SUITES
from opserve_kernels.cases.sums import multiply_adds

PRODUCTS_LIMIT = 1_000_000  # of a case: goldens of larger ones take most of a suite's time
RIGHT = Kernel()


@dataclass(slots=True, kw_only=True)
class Seen:
    """What is known of a fault.

    Attributes:
        shows: Cases where what it leaves in memory, or its code, differs from a right kernel's.
        caught: Those of them that do not pass.
        by: Cases by the layer or check that complains.
        examples: Of each, the first case's id.
    """

    shows: int = 0
    caught: int = 0
    by: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, str] = field(default_factory=dict[str, str])


def small_cases(suite: str, seed: int = 0) -> list[Case]:
    """Those of a suite that faulty kernels have the operator of."""
    return [
        case
        for case in SUITES[suite](seed).cases
        if case.operator in OPERATORS and multiply_adds(case) <= PRODUCTS_LIMIT
    ]


def survey(cases: Iterable[Case], seed: int, seen: Mapping[str, Seen]) -> None:
    """Runs every fault on every case and adds what comes of it."""
    for case in cases:
        golden = golden_of(case, seed)
        right = _trace(RIGHT, case, seed)
        for name, fault in FAULTS.items():
            if _trace(fault.kernel, case, seed) == right:
                continue
            found = findings(verdict_of(case, seed, golden, fault.kernel))
            seen[name].shows += 1
            seen[name].caught += bool(found)
            seen[name].by.update(found)
            for layer in found:
                seen[name].examples.setdefault(layer, case.id)


def _trace(kernel: Kernel, case: Case, seed: int) -> object:
    """What a kernel leaves in memory, bit by bit, or the code that it refuses with."""
    if case.is_refused:
        return kernel.refuse(case)
    left: list[bytes] = []
    for turn in range(REPEATS):
        memory = arrays_of(case, seed)
        run(kernel, case, memory, turn)
        left += [placed.storage.tobytes() for placed in memory.values()]
    return left
