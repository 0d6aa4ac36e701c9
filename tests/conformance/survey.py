"""Detection of each fault by a suite: affected cases, and layers and checks that report it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from conformance.faulty.faults import FAULTS
from conformance.faulty.kernel import Kernel
from conformance.judging import attempt, findings, memory_of, verdict_of
from kernels.cases.runs import expected_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.suites import SUITES
from opserve_kernels.cases.sums import multiply_adds

PRODUCTS_LIMIT = 1_000_000  # of a case: expected values of larger ones take most of a suite's time
RIGHT = Kernel()


@dataclass(slots=True, kw_only=True)
class Seen:
    """The detection of a fault.

    Attributes:
        shows: Cases by operator where what it leaves in memory, or its code, differs from a right
            kernel's.
        caught: Those of them that do not pass.
        by: Cases by the layer or check that complains.
        examples: The first case's id of each operator that is caught and each layer that complains.
    """

    shows: Counter[str] = field(default_factory=Counter[str])
    caught: Counter[str] = field(default_factory=Counter[str])
    by: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, str] = field(default_factory=dict[str, str])


def small_cases(suite: str, seed: int = 0) -> list[Case]:
    """Those of a suite that cost little."""
    return [case for case in SUITES[suite](seed).cases if multiply_adds(case) <= PRODUCTS_LIMIT]


def cases_of_seed(seed: int, seeds: int) -> list[Case]:
    """Those of `standard` that must succeed; each that costs much on one of so many seeds alone."""
    return [
        case
        for case in SUITES["standard"](seed).cases
        if not case.is_refused
        and (multiply_adds(case) <= PRODUCTS_LIMIT or int(case.id[-2:], 16) % seeds == seed)
    ]


def survey(cases: Iterable[Case], seed: int, seen: Mapping[str, Seen]) -> None:
    """Runs every fault on every case and adds the outcomes."""
    for case in cases:
        expected, before = expected_of(case, seed), memory_of(case, seed)
        right = attempt(RIGHT, case, before).trace()
        for name, fault in FAULTS.items():
            if case.operator not in fault.operators:
                continue
            made = attempt(fault.kernel, case, before)
            if made.trace() != right:
                _note(seen[name], case, findings(verdict_of(case, expected, made)))


def _note(seen: Seen, case: Case, found: set[str]) -> None:
    seen.shows[case.operator] += 1
    seen.by.update(found)
    if found:
        seen.caught[case.operator] += 1
        for key in (case.operator, *found):
            seen.examples.setdefault(key, case.id)
