"""An output graded by named standards, which are reported and may be gates."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from opserve_kernels.verdict import exact
from opserve_kernels.verdict.dtypes import Given, rounded, widened
from opserve_kernels.verdict.survey import CHUNK
from opserve_kernels.verdict.vendor.ascend import ASCEND
from opserve_kernels.verdict.vendor.libraries import LIBRARIES
from opserve_kernels.verdict.vendor.standard import Chunk, Standard, Subject, Tally
from opserve_kernels.verdict.verdict import LayerResult

STANDARDS = {standard.name: standard for standard in (*ASCEND, *LIBRARIES)}


def grade(
    subject: Subject, *, names: Sequence[str] = tuple(STANDARDS), gates: Collection[str] = ()
) -> tuple[LayerResult, ...]:
    """The results of standards for an output, for judge(reported=...).

    A value that is infinite or no number on one side only meets no standard; if both sides have the
    same, it is left out.

    Args:
        subject: The output.
        names: Standards; those without numbers for the output are left out.
        gates: Those that the output must meet.

    Raises:
        ValueError: An unknown name, or a gate that is not graded or has no numbers for the output.
    """
    if unknown := [name for name in (*names, *gates) if name not in STANDARDS]:
        raise ValueError(f"standards: {unknown} are unknown; there are {', '.join(STANDARDS)}")
    chosen = [STANDARDS[name] for name in names if STANDARDS[name].applies(subject)]
    if missing := sorted(set(gates) - {standard.name for standard in chosen}):
        raise ValueError(f"gates: {missing} do not apply to this output or are not graded")
    tallies = [Tally() for _ in chosen]
    strange = 0
    with np.errstate(invalid="ignore", over="ignore"):  # what overflows is beyond any limit
        for chunk, lost in _chunks(subject):
            strange += lost
            for standard, tally in zip(chosen, tallies, strict=True):
                tally.add(standard.measure(chunk, subject))
        return tuple(
            _result(standard, tally, subject, strange=strange, gate=standard.name in gates)
            for standard, tally in zip(chosen, tallies, strict=True)
        )


def _chunks(subject: Subject) -> Iterator[tuple[Chunk, int]]:
    """Finite elements, a few at a time, at least once, with the number of elements left out."""
    pair = subject.pair
    given, expected = pair.given.reshape(-1), pair.expected.reshape(-1)
    second: Given = given if subject.second is None else subject.second.reshape(-1)
    for start in range(0, max(expected.size, 1), CHUNK):
        part = slice(start, start + CHUNK)
        got, other = (widened(side[part]) for side in (given, second))
        right = exact.goal(expected[part], pair.dtype, pair.overflow)
        stored = rounded(right, pair.dtype)
        wide = stored.astype(np.float64)
        both = np.isfinite(got) & np.isfinite(wide)
        fits = both | (got == wide) | (np.isnan(got) & np.isnan(wide))
        plain = both & np.isfinite(other)
        if not np.all(plain):
            got, right, stored, other = got[plain], right[plain], stored[plain], other[plain]
        chunk = Chunk(given=got, expected=right, rounded=stored, second=other, dtype=pair.dtype)
        yield chunk, int(np.count_nonzero(~fits))


def _result(
    standard: Standard, tally: Tally, subject: Subject, *, strange: int, gate: bool
) -> LayerResult:
    metrics, passed = standard.conclude(tally, subject)
    return LayerResult(
        name=standard.name,
        version=standard.version,
        source=standard.source,
        passed=passed and not strange,
        gate=gate,
        metrics={**metrics, "not finite on one side": float(strange)},
    )
