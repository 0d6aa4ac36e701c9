"""What a target made of a case, judged against golden values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

import numpy as np

from opserve_client.conform.goldens import Golden
from opserve_client.conform.targets.target import Array, Ran, Refused, Tensors
from opserve_client.data_types import DataType
from opserve_kernels.cases.case import Case, Kind
from opserve_kernels.cases.fill import unwritten
from opserve_kernels.cases.sums import Sum, sums_of
from opserve_kernels.verdict.checks import (
    TRUST,
    check_gaps,
    check_repeats,
    check_trust,
    check_untouched,
    check_written,
    reached_by,
    trust_of_image,
    trust_of_weight,
)
from opserve_kernels.verdict.exact import Exact
from opserve_kernels.verdict.judge import conclude, judge, judge_refusal
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.rounding import Rounding
from opserve_kernels.verdict.vendor.grade import STANDARDS, grade
from opserve_kernels.verdict.vendor.standard import Subject
from opserve_kernels.verdict.verdict import Check, Code, OutputVerdict, Overflow, Status, Verdict

_EXACT = float(1 << 24)  # sums of magnitudes below it are the same in every order, in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Standards:
    """Standards beside our own layers, by name.

    Attributes:
        reported: What they say is told.
        gates: Those of them that an output fails by, if they have numbers for it.
    """

    reported: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()


NO_STANDARDS = Standards()


def judge_code(case: Case, outcome: Ran | Refused, contract: str) -> Verdict:
    """Of a call that must be refused, or that was refused though it must succeed."""
    expected = Code(name=case.expect) if case.is_refused else None
    given = outcome.code if isinstance(outcome, Refused) else None
    return conclude(case.id, contract=contract, refusal=judge_refusal(expected, given))


def judge_outputs(
    case: Case,
    runs: Sequence[Ran],
    *,
    before: Tensors,
    golden: Mapping[str, Golden],
    contract: str,
    standards: Standards,
) -> Verdict:
    """Of a call that succeeded.

    Args:
        case: The call.
        runs: What equal calls made; the first is judged, the others must be equal to it.
        before: The tensors before each call.
        golden: By output.
        contract: Revision of the operator's contract.
        standards: Told besides.
    """
    outputs: list[OutputVerdict] = []
    checks: list[Check] = []
    for one in sums_of(case):
        wrong = _wrong_form(case, one.output, runs[0])
        if wrong is not None:
            checks.append(wrong)
            continue
        given, right = runs[0].outputs[one.output], golden[one.output]
        checks += _checks(case, one, given, right)
        if len(runs) > 1:
            checks.append(check_repeats(one.output, [run.outputs[one.output] for run in runs]))
        outputs.append(_judged(case, one, given, right, standards))
    checks += _memory_checks(case, before, runs[0].storages)
    return conclude(case.id, contract=contract, outputs=outputs, checks=checks)


def _wrong_form(case: Case, output: str, run: Ran) -> Check | None:
    """A complaint where there is no array of the right shape and dtype."""
    tensor = case.tensors[output]
    dtype, given = DataType(tensor.dtype.value).numpy, run.outputs.get(output)
    if given is not None and given.shape == tensor.shape and given.dtype == dtype:
        return None
    told = "nothing" if given is None else f"{given.dtype} of shape {given.shape}"
    reason = f"{output}: {told} was given instead of {dtype} of shape {tensor.shape}"
    return Check(name="form", tensor=output, status=Status.FAILED, reason=reason)


def _judged(
    case: Case, one: Sum, given: Array, golden: Golden, standards: Standards
) -> OutputVerdict:
    overflow = Overflow.SATURATED if one.saturates else Overflow.INFINITE
    pair = Pair(given=given, golden=golden.values, overflow=overflow)
    is_weight = one.output not in {"grad_input", "grad_bias", "out", "res_tensor"}
    subject = Subject(pair=pair, terms=one.terms, precision=pair.dtype.name, of_weight=is_weight)
    gates = [name for name in standards.gates if STANDARDS[name].applies(subject)]
    named = standards.reported
    graded = grade(subject, names=named, gates=gates) if named else ()
    rule = Exact() if _is_exact(case, one, golden) else _rounding(one, golden)
    return judge(one.output, pair, rule, axes=one.axes, reported=graded)


def _is_exact(case: Case, one: Sum, golden: Golden) -> bool:
    """With thinning every order gives the same bits all but always: the magnitudes tell."""
    thinned = any(
        tensor.fill is not None and tensor.fill.thinning for tensor in case.inputs.values()
    )
    if not one.is_exact or not thinned:
        return one.is_exact
    return float(np.max(golden.magnitudes, initial=0.0)) < _EXACT


def _rounding(one: Sum, golden: Golden) -> Rounding:
    return Rounding(
        magnitude=golden.magnitudes,
        terms=one.terms,
        accumulator=one.accumulator,
        roundings=one.roundings,
    )


def _checks(case: Case, one: Sum, given: Array, golden: Golden) -> Iterator[Check]:
    yield check_written(
        one.output, given, golden.values, unwritten(1, case.tensors[one.output].dtype)
    )
    needed = _needed(case, one.output)
    if needed is not None:
        yield check_trust(one.output, golden.values, needed)


def _needed(case: Case, output: str) -> float | None:
    """The share of golden values other than 0 that is enough; None where it is not known."""
    if case.operator != "convolution_backward" or case.kind != Kind.INTEGER:
        return None
    if any(prod(tensor.shape) == 0 for tensor in case.inputs.values()):
        return None  # sums of nothing are meant to be 0
    image, weight = case.tensors["input"].shape, case.tensors["weight"].shape
    places, stride = (
        case.tensors["grad_output"].shape,
        cast("tuple[int, ...]", case.arguments["stride"]),
    )
    match output:
        case "grad_input":
            return trust_of_image(() if case.arguments["transposed"] else stride)
        case "grad_weight":
            return trust_of_weight(weight[2:], image[2:], places[2:])
        case _:
            return TRUST


def _memory_checks(case: Case, before: Tensors, after: Mapping[str, Array]) -> Iterator[Check]:
    """Of tensors whose memory the target had: inputs, masked outputs, gaps."""
    for name, storage in after.items():
        if name not in case.written:
            yield check_untouched(name, before[name].storage, storage)
        elif prod(case.tensors[name].shape) != storage.size:
            described = case.tensors[name].tensor()
            reached = reached_by(
                storage.size, described.shape, described.element_strides, described.offset
            )
            yield check_gaps(name, before[name].storage, storage, reached)
