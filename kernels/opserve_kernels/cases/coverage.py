"""Coverage of cases, read from the cases themselves, against each operator's features."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from opserve_kernels.cases.case import DRAWN_KINDS, Case
from opserve_kernels.cases.refusals.changes import ERROR_TABLE
from opserve_kernels.cases.registry import cases_of
from opserve_kernels.operators import OPERATOR_NAMES

_STEPS = ("stride", "padding", "dilation")
_COMMON = (
    *("input with gaps", "output with gaps", "repeated elements", "offset"),
    *(f"fill {kind}" for kind in DRAWN_KINDS),
)


def required(operator: str) -> tuple[str, ...]:
    """All features of a full suite of an operator."""
    cases = cases_of(operator)
    dtypes = dict.fromkeys(dtype for row in cases.support.values() for dtype in row.dtypes)
    return (
        *(f"profile {profile}" for profile in cases.support),
        *(f"dtype {dtype}" for dtype in dtypes),
        *(_STEPS if cases.steps else ()),
        *_COMMON,
        *cases.features,
        *(
            f"refused: {rule.parameter}: {rule.broken}"
            for rule in cases.rules
            if cases.is_error(rule)
        ),
    )


def coverage(cases: Iterable[Case]) -> Mapping[str, Mapping[str, int]]:
    """Numbers of cases by feature and operator, with 0 for each required feature without a case."""
    counts: dict[str, Counter[str]] = {operator: Counter() for operator in OPERATOR_NAMES}
    for case in cases:
        counts[case.operator].update(set(_features(case)))
    return {
        operator: {feature: counts[operator][feature] for feature in required(operator)}
        for operator in OPERATOR_NAMES
    }


def _features(case: Case) -> Iterator[str]:
    """Features of a case; for a call that must be rejected, only the rule that it breaks."""
    if case.is_refused:
        yield f"refused: {case.source.removeprefix(ERROR_TABLE)}"
        return
    yield f"profile {case.profile}"
    yield f"fill {case.kind}"
    if any(tag.startswith("limit of ") for tag in case.tags):
        yield "limit"
    yield from _tensor_features(case)
    yield from _step_features(case)
    yield from cases_of(case.operator).tried(case)


def _tensor_features(case: Case) -> Iterator[str]:
    first = next(iter(case.inputs.values()))
    yield f"rank {len(first.shape)}"
    if len({tensor.dtype for tensor in case.tensors.values()}) > 1:
        yield "several dtypes"
    for name, tensor in case.tensors.items():
        described = tensor.tensor()
        yield f"format {tensor.format}"
        if name in case.inputs:
            yield f"dtype {tensor.dtype}"
        if described.element_count == 0:
            yield "empty"
        if described.repeats_elements:
            yield "repeated elements"
        elif not described.is_contiguous:
            yield "input with gaps" if name in case.inputs else "output with gaps"
        if tensor.offset:
            yield "offset"


def _step_features(case: Case) -> Iterator[str]:
    cases = cases_of(case.operator)
    groups, channels = cases.groups(case)
    if groups > 1:
        yield "depthwise" if channels == 1 else "groups"
    if cases.steps is None:
        return
    stride, padding, dilation = cases.steps(case)
    if max(stride) > 1:
        yield "stride"
    if max(dilation) > 1:
        yield "dilation"
    if max(padding) > 0:
        yield "padding"
    if len(padding) == 4 and (padding[0] != padding[1] or padding[2] != padding[3]):  # noqa: PLR2004  # sides
        yield "asymmetric padding"
