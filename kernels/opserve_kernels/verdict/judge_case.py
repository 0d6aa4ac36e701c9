"""Judgement of a case's results against expected values: layers, standards and checks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import unwritten
from opserve_kernels.cases.projection import Projection
from opserve_kernels.cases.reading import refusal, shown
from opserve_kernels.cases.sum import Sum
from opserve_kernels.cases.sums import sums_of
from opserve_kernels.tensor import NUMPY_DTYPES
from opserve_kernels.user_input import choices
from opserve_kernels.verdict.checks import (
    check_gaps,
    check_repeats,
    check_untouched,
    check_written,
    elements_of_view,
)
from opserve_kernels.verdict.dtypes import Doubles
from opserve_kernels.verdict.exact import Exact
from opserve_kernels.verdict.judge import conclude, judge, judge_refusal
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.projection import judge_projection
from opserve_kernels.verdict.rounding import Rounding
from opserve_kernels.verdict.trust import check_trust
from opserve_kernels.verdict.vendor.grade import STANDARDS, grade
from opserve_kernels.verdict.vendor.standard import Subject
from opserve_kernels.verdict.verdict import Check, Code, OutputVerdict, Overflow, Status, Verdict

Array = NDArray[Any]
Arrays = Mapping[str, Array]
_EXACT = float(1 << 24)  # sums of magnitudes below it are the same in every order, in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expected values of an output.

    Attributes:
        values: The values, unrounded.
        magnitudes: The same sums over magnitudes, if sized_outputs names the output.
        projection: The sums of channels that these are; None for the elements themselves.
    """

    values: Doubles
    magnitudes: Doubles | None = None
    projection: Projection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standards:
    """Standards besides the project's own layers, by name.

    Attributes:
        reported: Standards to report.
        gates: Those that an output must meet, if they have numbers for it.
    """

    reported: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()


NO_STANDARDS = Standards()


def standards_of(reported: Sequence[str], gates: Sequence[str]) -> Standards:
    """Standards by their names, each once; gates are reported too.

    Raises:
        InvalidArgument: 100000, a standard is unknown.
    """
    for parameter, names in (("standards", reported), ("gates", gates)):
        for name in names:
            if name not in STANDARDS:
                raise refusal(parameter, given=shown(name)[1:-1], allowed=choices(STANDARDS, name))
    every, failing = dict.fromkeys((*reported, *gates)), dict.fromkeys(gates)
    return Standards(reported=tuple(every), gates=tuple(failing))


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of equal calls.

    Attributes:
        outputs: For each call, arrays by output; the first are judged, the others must be equal.
        before: Flat memory of every tensor before a call, with gaps.
        after: The same after the first call, for tensors whose memory is known.
    """

    outputs: Sequence[Arrays]
    before: Arrays
    after: Arrays


def sized_outputs(case: Case) -> tuple[str, ...]:
    """The outputs that a verdict needs magnitudes of: all except integers that are surely exact."""
    return tuple(one.output for one in sums_of(case) if not one.is_exact or _is_thinned(case))


def judge_code(case: Case, given: Code | None, contract: str) -> Verdict:
    """The verdict on a call that must be rejected, or was rejected though it must succeed.

    Args:
        case: The call.
        given: The code that rejected it; None if it succeeded.
        contract: Revision of the operator's contract.
    """
    expected = Code(name=case.expect) if case.is_refused else None
    return conclude(case.id, contract=contract, refusal=judge_refusal(expected, given))


def judge_case(
    case: Case,
    results: Results,
    *,
    expected: Mapping[str, Expected],
    contract: str,
    standards: Standards = NO_STANDARDS,
) -> Verdict:
    """The verdict on a call that succeeded.

    Args:
        case: The call.
        results: Its results.
        expected: Expected values by output.
        contract: Revision of the operator's contract.
        standards: Standards to report besides.
    """
    outputs: list[OutputVerdict] = []
    checks: list[Check] = []
    first = results.outputs[0]
    for one in sums_of(case):
        wrong = _wrong_form(case, one.output, results.outputs)
        if wrong is not None:
            checks.append(wrong)
            continue
        given, right = first[one.output], expected[one.output]
        unset = unwritten(1, case.tensors[one.output].dtype)
        has_elements = right.projection is None
        known = right.values if has_elements else np.zeros(())  # of integers, none is a NaN
        checks.append(check_written(one.output, given, known, unset))
        if len(results.outputs) > 1:
            checks.append(check_repeats(one.output, [run[one.output] for run in results.outputs]))
        outputs.append(judge_output(case, one, given, right, standards))
    checks += check_trust(case, {name: right.values for name, right in expected.items()})
    checks += _memory_checks(case, results)
    return conclude(case.id, contract=contract, outputs=outputs, checks=checks)


def judge_output(
    case: Case, one: Sum, given: Array, expected: Expected, standards: Standards = NO_STANDARDS
) -> OutputVerdict:
    """The verdict on one output, by the layer that fits its sums."""
    if expected.projection is not None:
        return judge_projection(one.output, given, expected.values, expected.projection)
    overflow = Overflow.SATURATED if one.saturates else Overflow.INFINITE
    pair = Pair(given=given, expected=expected.values, overflow=overflow)
    is_weight = one.output not in {"grad_input", "grad_bias", "out", "res_tensor"}
    subject = Subject(pair=pair, terms=one.terms, precision=pair.dtype.name, of_weight=is_weight)
    gates = [name for name in standards.gates if STANDARDS[name].applies(subject)]
    named = standards.reported
    graded = grade(subject, names=named, gates=gates) if named else ()
    rule = Exact() if _is_exact(case, one, expected) else _rounding(one, expected)
    return judge(one.output, pair, rule, axes=one.axes, reported=graded)


def _wrong_form(case: Case, output: str, runs: Sequence[Arrays]) -> Check | None:
    """A failed check if a call left no array of the right shape and dtype."""
    tensor = case.tensors[output]
    dtype = NUMPY_DTYPES[tensor.dtype]
    for given in (run.get(output) for run in runs):
        if given is None or given.shape != tensor.shape or given.dtype != dtype:
            found_form = "nothing" if given is None else f"{given.dtype} of shape {given.shape}"
            reason = f"{output}: {found_form} was given instead of {dtype} of shape {tensor.shape}"
            return Check(
                name="form",
                tensor=output,
                status=Status.FAILED,
                reason=reason,
                elements=prod(tensor.shape),
            )
    return None


def _is_exact(case: Case, one: Sum, expected: Expected) -> bool:
    """With thinning, nearly every order gives the same bits: the magnitudes decide."""
    if not one.is_exact or not _is_thinned(case):
        return one.is_exact
    assert expected.magnitudes is not None, "sized_outputs names it"
    return float(np.max(expected.magnitudes, initial=0.0)) < _EXACT


def _is_thinned(case: Case) -> bool:
    return any(tensor.fill is not None and tensor.fill.thinning for tensor in case.inputs.values())


def _rounding(one: Sum, expected: Expected) -> Rounding:
    assert expected.magnitudes is not None, "sized_outputs names it"
    return Rounding(
        magnitude=expected.magnitudes,
        terms=one.terms,
        accumulator=one.accumulator,
        roundings=one.roundings,
    )


def _memory_checks(case: Case, results: Results) -> Iterator[Check]:
    """Checks of tensors whose memory is known: inputs, masked outputs, gaps."""
    for name, storage in results.after.items():
        if name not in case.written:
            yield check_untouched(name, results.before[name], storage)
        elif prod(case.tensors[name].shape) != storage.size:
            described = case.tensors[name].tensor()
            covered = elements_of_view(
                storage.size, described.shape, described.element_strides, described.offset
            )
            yield check_gaps(name, results.before[name], storage, covered)
