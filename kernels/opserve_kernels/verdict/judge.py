"""Verdicts from arrays: an output against its expected values, a call's code, a whole case."""

from collections.abc import Sequence

from opserve_kernels.verdict import exact, rounding
from opserve_kernels.verdict.maps import bins, heat_maps
from opserve_kernels.verdict.pair import Pair
from opserve_kernels.verdict.survey import Found, Rule, element, survey
from opserve_kernels.verdict.verdict import (
    Check,
    Code,
    Element,
    LayerResult,
    OutputVerdict,
    Status,
    StatusVerdict,
    Verdict,
)

_GRAVITY = (Status.NONDETERMINISTIC, Status.FAILED, Status.MISTRUSTED)


def judge(
    name: str,
    pair: Pair,
    rule: Rule,
    *,
    axes: Sequence[str],
    reported: Sequence[LayerResult] = (),
) -> OutputVerdict:
    """The verdict on an output.

    Args:
        name: Name of the output.
        pair: The output and its expected values.
        rule: Exact() for operands that sum exactly in any order, else Rounding(...).
        axes: Meaning of each axis: "n", "c", "d", "h", "w", "kd", "kh", "kw" or any other name.
        reported: Results of standards (vendor.standards.grade); gates decide the verdict, too.

    Raises:
        ValueError: Axes or a magnitude that do not fit the output.
    """
    shape = pair.expected.shape
    if len(axes) != len(shape):
        raise ValueError(f"{name}: {len(axes)} axes are named, there are {len(shape)}")
    if isinstance(rule, rounding.Rounding) and rule.magnitude.shape != shape:
        raise ValueError(f"{name}: magnitude has shape {rule.magnitude.shape} instead of {shape}")
    found = survey(pair, rule)
    first = tuple(element(pair, place) for place in found.first)
    layers = (_layer(rule, found), *reported)
    broken = [layer.name for layer in layers if layer.gate and not layer.passed]
    return OutputVerdict(
        name=name,
        dtype=pair.dtype.name,
        shape=shape,
        status=Status.FAILED if broken else Status.PASSED,
        reason=_reason(name, found, broken, first),
        layers=layers,
        elements=pair.expected.size,
        errors=found.errors,
        worst=found.worst,
        first=first,
        greatest=tuple(element(pair, place) for place in found.greatest),
        histogram=bins(found.counts),
        maps=heat_maps(found.used.reshape(shape), axes),
    )


def judge_refusal(expected: Code | None, given: Code | None) -> StatusVerdict:
    """The verdict on a call's code.

    Args:
        expected: The code that must reject it; None if it must succeed.
        given: The code that rejected it; None if it succeeded.
    """
    if expected is None or given is None:
        same = expected is given
    elif expected.number is not None and given.number is not None:
        same = expected.number == given.number
    else:
        same = expected.name is not None and expected.name == given.name
    codes = ["no refusal" if code is None else code.text for code in (expected, given)]
    reason = f"{codes[0]}, as it must be" if same else f"{codes[1]} instead of {codes[0]}"
    status = Status.PASSED if same else Status.FAILED
    return StatusVerdict(status=status, reason=reason, expected=expected, given=given)


def conclude(
    case: str,
    *,
    contract: str,
    outputs: Sequence[OutputVerdict] = (),
    checks: Sequence[Check] = (),
    refusal: StatusVerdict | None = None,
) -> Verdict:
    """The verdict on a case, from its parts: the gravest of their statuses with its reason.

    Of several parts with that status, the reason is that of the one with the most elements at
    fault: few unwritten elements among many wrong ones explain little.

    Args:
        case: The case's id.
        contract: Revision of the operator's contract.
        outputs: Verdicts on its outputs.
        checks: Results of the checks.
        refusal: Verdict on the status code, if the case requires one.
    """
    parts: list[Check | OutputVerdict | StatusVerdict] = [*checks, *outputs]
    parts += [] if refusal is None else [refusal]
    status, reason = Status.PASSED, "all layers and checks passed"
    complaints = [part for part in parts if part.status in _GRAVITY]
    if complaints:
        gravest = min(complaints, key=lambda part: (_GRAVITY.index(part.status), -_faults(part)))
        status, reason = gravest.status, gravest.reason
    return Verdict(
        case=case,
        status=status,
        reason=reason,
        contract=contract,
        outputs=tuple(outputs),
        checks=tuple(checks),
        refusal=refusal,
        standards={layer.name: layer.version for output in outputs for layer in output.layers},
    )


def _faults(part: Check | OutputVerdict | StatusVerdict) -> int:
    """The number of elements at fault; of a code, 0."""
    match part:
        case Check():
            return part.elements
        case OutputVerdict():
            return part.errors
        case StatusVerdict():
            return 0


def _layer(rule: Rule, found: Found) -> LayerResult:
    module = exact if isinstance(rule, exact.Exact) else rounding
    return LayerResult(
        name=module.NAME,
        version=module.VERSION,
        source=module.SOURCE,
        passed=not found.errors,
        gate=True,
        metrics={
            "errors": float(found.errors),
            "errors beyond the proven bound": float(found.unexplained),
            "worst used fraction": found.worst,
        },
    )


def _reason(name: str, found: Found, broken: Sequence[str], first: Sequence[Element]) -> str:
    if first:
        one = first[0]
        return (
            f"{name}: {found.errors} of {found.used.size} elements are wrong, the first at "
            f"{one.index}: {one.got!r} instead of {one.expected!r}"
        )
    if broken:
        return f"{name}: does not meet {', '.join(broken)}"
    return f"{name}: all {found.used.size} elements are right"
