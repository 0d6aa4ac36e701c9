"""Rules that only the vendor's page states: an error by default, a warning where asked for."""

import ast
from collections.abc import Iterator
from pathlib import Path
from traceback import extract_stack
from typing import Any

import pytest

import opserve_kernels
from kernels.execution import execute, plan_of
from kernels.oracles.convolution_backward import expected
from kernels.oracles.expectation import assert_meets
from kernels.samples import CONTRADICTED_SAMPLES, ERRORS_ELSEWHERE, REGISTRY_ERROR_SAMPLES
from kernels.samples.convolution_backward import convolution
from kernels.samples.convolution_backward_errors import BASE, tensor_of
from kernels.samples.convolution_backward_page import CONTRADICTED_CALLS, PAGE_SAMPLES
from kernels.samples.sample import ErrorSample, Sample
from kernels.samples.vendor_rows import CONVOLUTIONS, FOLDS, VENDOR_ROWS, VendorRow
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import DocumentedRules, PlanOptions, Rule, RuleOrigin, RuleWarning
from opserve_kernels.page_rules import PageRules
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import AnyStatus, Status

Refusal = tuple[AnyStatus, str]
WARN = PlanOptions(documented_rules=DocumentedRules.WARN)
_OPERATORS = Path(opserve_kernels.__file__).parent / "operators"
_ERRORS = [error for errors in REGISTRY_ERROR_SAMPLES.values() for error in errors]
_CONTRADICTED = [error for errors in CONTRADICTED_SAMPLES.values() for error in errors]
_OF_THE_PAGE = (RuleOrigin.PAGE, RuleOrigin.CONTRADICTED)

each_operator = pytest.mark.parametrize("operator", OPERATORS)


def rule_of(error: ErrorSample) -> Rule:
    """The row of the error table that a sample breaks."""
    (rule,) = (
        rule
        for rule in OPERATORS[error.sample.operator].rules
        if (rule.parameter, rule.broken) == (error.parameter, error.rule)
    )
    return rule


_PAGE_ERRORS = [error for error in _ERRORS if rule_of(error).origin is RuleOrigin.PAGE]
_OTHER_ERRORS = [error for error in _ERRORS if rule_of(error).origin is not RuleOrigin.PAGE]


def refusal_of(sample: Sample, options: PlanOptions) -> Refusal | None:
    """The code and the parameter that a call is refused with; None of one that is accepted."""
    try:
        plan_of(sample, options)
    except InvalidArgument as refusal:
        return refusal.status, refusal.parameter
    return None


def warned(rule: Rule, warnings: tuple[RuleWarning, ...]) -> list[RuleWarning]:
    """The warnings that a rule makes."""
    return [
        warning
        for warning in warnings
        if (warning.status, warning.parameter, warning.sentence)
        == (rule.status, rule.parameter, rule.sentence)
    ]


@each_operator
def test_every_rule_of_the_page_has_the_pages_sentence_and_no_other_rule_has_one(
    operator: str,
) -> None:
    for rule in OPERATORS[operator].rules:
        assert bool(rule.sentence) == (rule.origin in _OF_THE_PAGE), rule.broken


_FIRST_FIVE = (
    *("convolution_backward", "im2col_backward", "deconv_grad_filter"),
    *("conv2d_backprop_input", "conv2d_backprop_filter"),
)


@each_operator
def test_only_operators_of_the_first_five_pages_reject_what_breaks_the_page(operator: str) -> None:
    rejects = OPERATORS[operator].documented_rules is DocumentedRules.ERROR
    assert rejects == (operator in _FIRST_FIVE)


@pytest.mark.parametrize("error", _PAGE_ERRORS, ids=lambda error: error.name)
def test_rule_of_the_page_alone_is_an_error_by_default_and_a_warning_on_request(
    error: ErrorSample,
) -> None:
    assert refusal_of(error.sample, PlanOptions()) == (error.status, error.parameter)

    (warning,) = warned(rule_of(error), plan_of(error.sample, WARN).warnings)
    assert warning.given
    assert warning.allowed


def test_rule_of_the_source_is_always_an_error() -> None:
    for error in _OTHER_ERRORS:
        assert refusal_of(error.sample, WARN) == (error.status, error.parameter), error.name


@pytest.mark.parametrize("answer", DocumentedRules)
@pytest.mark.parametrize("error", _CONTRADICTED, ids=lambda error: error.name)
def test_rule_that_the_vendors_tests_break_is_always_a_warning(
    error: ErrorSample, answer: DocumentedRules
) -> None:
    rule = rule_of(error)
    planned = plan_of(error.sample, PlanOptions(documented_rules=answer))

    follows_source = OPERATORS[error.sample.operator].documented_rules is DocumentedRules.WARN
    assert rule.origin in (_OF_THE_PAGE if follows_source else (RuleOrigin.CONTRADICTED,))
    assert len(warned(rule, planned.warnings)) == 1


@pytest.mark.parametrize(
    "error",
    [error for errors in ERRORS_ELSEWHERE.values() for error in errors],
    ids=lambda e: e.name,
)
def test_rule_that_is_checked_in_two_places_is_one_row(error: ErrorSample) -> None:
    rule = rule_of(error)

    with pytest.raises(InvalidArgument) as refusal:
        plan_of(error.sample)
    assert (refusal.value.status, refusal.value.parameter) == (rule.status, rule.parameter)


def test_call_that_breaks_no_rule_has_no_warning() -> None:
    assert plan_of(BASE, WARN).warnings == ()


def test_all_broken_rules_of_a_call_are_listed() -> None:
    planned = plan_of(BASE.but("two", bias_sizes=(1,), output_padding=(0, 0, 0, 0)), WARN)

    assert [warning.parameter for warning in planned.warnings] == ["output_padding", "bias_sizes"]
    assert (planned.warnings[1].given, planned.warnings[1].allowed) == ("[1]", "[6]")


@pytest.mark.parametrize(
    ("weight", "groups", "transposed"), [((8, 4, 3, 3), 1, False), ((4, 4, 3, 3), 2, True)]
)
def test_bias_sizes_of_an_empty_input_follow_from_weight_and_groups(
    weight: tuple[int, ...], groups: int, *, transposed: bool
) -> None:
    empty = convolution("empty", (0, 4, 5, 5), weight, transposed=transposed, groups=groups)
    other = empty.but(
        "other channels",
        grad_output=tensor_of(empty, "grad_output", shape=(0, 7, 3, 3)),
        grad_bias=None,
        output_mask=(True, True, False),
    )
    for given, rejected in (((8,), False), ((7,), True)):
        warnings = plan_of(other.but("given", bias_sizes=given), WARN).warnings
        assert ("bias_sizes" in [one.parameter for one in warnings]) == rejected


@pytest.mark.parametrize("sample", PAGE_SAMPLES, ids=lambda sample: sample.name)
def test_call_against_the_page_is_computed_as_the_source_does(sample: Sample) -> None:
    refusal = refusal_of(sample, PlanOptions())
    first = plan_of(sample, WARN).warnings[0]
    assert refusal == (Status.ACLNN_ERR_PARAM_INVALID, first.parameter)

    _assert_computed(sample, WARN)


@pytest.mark.parametrize("sample", CONTRADICTED_CALLS, ids=lambda sample: sample.name)
def test_call_against_a_contradicted_rule_is_computed_by_default(sample: Sample) -> None:
    assert plan_of(sample).warnings

    _assert_computed(sample, PlanOptions())


def _assert_computed(sample: Sample, options: PlanOptions) -> None:
    buffers = sample.buffers()
    expectations = expected(sample, buffers)

    execute(sample, buffers, options=options)

    for name, expectation in expectations.items():
        assert_meets(sample.outputs[name].view(buffers[name]), expectation)


def test_rows_of_the_vendors_unit_tests_are_84() -> None:
    assert (len(CONVOLUTIONS), len(FOLDS)) == (53, 31)


@pytest.mark.parametrize("row", VENDOR_ROWS, ids=lambda row: row.sample.name)
def test_row_of_the_vendors_unit_tests_holds_where_rules_of_the_page_warn(row: VendorRow) -> None:
    refusal = refusal_of(row.sample, WARN)
    assert refusal == (row.status and (row.status, row.parameter))


def test_rows_that_the_page_rejects_have_other_bias_sizes() -> None:
    broken = [
        row.sample
        for row in VENDOR_ROWS
        if row.status is None and refusal_of(row.sample, PlanOptions()) is not None
    ]

    assert len(broken) == 5
    for sample in broken:
        (warning,) = plan_of(sample, WARN).warnings
        assert warning.parameter == "bias_sizes"


def test_operator_of_a_later_page_warns_unless_it_says_otherwise() -> None:
    rule = Rule(
        status=Status.ACLNN_ERR_PARAM_INVALID,
        parameter="bias_sizes",
        broken="wrong",
        origin=RuleOrigin.PAGE,
        sentence="s",
    )
    later = PageRules([rule], "ascend910b", DocumentedRules.WARN, DocumentedRules.ERROR)
    with later.rule("wrong"):
        _break("bias_sizes")

    assert [warning.sentence for warning in later.with_warnings(plan_of(BASE)).warnings] == ["s"]


def test_check_without_a_row_in_the_error_table_is_no_refusal_but_a_mistake() -> None:
    rules = OPERATORS["convolution_backward"].rules
    page = PageRules(rules, "ascend910b", DocumentedRules.ERROR)

    with pytest.raises(KeyError), page.rule("not written down"):
        _break("bias_sizes")


def _break(parameter: str) -> None:
    raise InvalidArgument(Status.ACLNN_ERR_PARAM_INVALID, "m", parameter=parameter)


Site = tuple[str, int]
_OTHER_CHECKS = {
    "check_tensor",
    "check_positions",
    "check_elements",
}  # of memory, no operator's rules


@each_operator
def test_every_check_is_reached_by_the_sample_of_a_row(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So no check is without a row: each sample breaks one row of the error table."""
    reached: set[Site] = set()
    raised = InvalidArgument.__init__

    def noted(self: InvalidArgument, *arguments: Any, **keywords: Any) -> None:
        reached.update((frame.filename, frame.lineno or 0) for frame in extract_stack())
        raised(self, *arguments, **keywords)

    monkeypatch.setattr(InvalidArgument, "__init__", noted)
    warned_of = CONTRADICTED_SAMPLES.get(operator, ())
    elsewhere = ERRORS_ELSEWHERE.get(operator, ())
    for error in (*REGISTRY_ERROR_SAMPLES[operator], *elsewhere, *warned_of):
        refusal_of(error.sample, PlanOptions())
    checks = {site for path in (_OPERATORS / operator).glob("*.py") for site in _checks_in(path)}

    assert checks
    assert sorted(checks - reached) == []


def _checks_in(path: Path) -> Iterator[Site]:
    """Places where a module raises, or calls code that may."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _may_raise(node)):
            yield str(path), node.lineno


def _may_raise(call: ast.Call) -> bool:
    name = call.func.id.lstrip("_") if isinstance(call.func, ast.Name) else ""
    return name.startswith(("check", "required")) and name not in _OTHER_CHECKS
