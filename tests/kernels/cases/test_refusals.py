"""Calls that must be refused: every row of every error table, with the contract's own code."""

from dataclasses import dataclass

import pytest

from kernels.cases.runs import plan_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals.changes import ERROR_TABLE, PAGE_RULE, row_of
from opserve_kernels.cases.refusals.rows import refusals_of
from opserve_kernels.cases.refusals.warned import replaces_refusal
from opserve_kernels.cases.registry import cases_of
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import DocumentedRules, PlanOptions, RuleOrigin
from opserve_kernels.registry import OPERATORS

CASES = [case for operator in OPERATORS for case in refusals_of(operator)]


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_row_of_the_error_table_has_a_call(operator: str) -> None:
    cases = cases_of(operator)
    assert cases.rules == OPERATORS[operator].rules
    assert cases.documented_rules == OPERATORS[operator].documented_rules
    rules = [rule for rule in cases.rules if cases.is_error(rule)]
    assert set(cases.breaches()) == {row_of(rule) for rule in rules}
    for case, rule in zip(refusals_of(operator), rules, strict=True):
        assert case.source == f"{ERROR_TABLE}{rule.parameter}: {rule.broken}"
        assert case.expect == rule.status.name
        assert (PAGE_RULE in case.tags) == (rule.origin is RuleOrigin.PAGE)
        assert not rule.profiles or case.profile in rule.profiles


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.operator}: {case.source}")
def test_call_is_refused_with_the_code_and_parameter_of_its_row(case: Case) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(case)

    assert refusal.value.status.name == case.expect
    assert case.source.startswith(f"{ERROR_TABLE}{refusal.value.parameter}: ")


@dataclass(frozen=True)
class Broken:
    """A warning of a plan, as results of the core and the client have it."""

    name: str
    parameter: str
    sentence: str
    code: int = 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.operator}: {case.source}")
def test_call_is_warned_of_its_row_where_that_may_be_a_warning_and_refused_else(case: Case) -> None:
    options = PlanOptions(documented_rules=DocumentedRules.WARN)
    if PAGE_RULE not in case.tags:
        with pytest.raises(InvalidArgument):
            plan_of(case, options)
        return
    warnings = [
        Broken(warning.status.name, warning.parameter, warning.sentence)
        for warning in plan_of(case, options).warnings
    ]
    assert any(replaces_refusal(case, broken, warns=True) for broken in warnings)
    assert not any(replaces_refusal(case, broken, warns=False) for broken in warnings)


@pytest.mark.parametrize("operator", OPERATORS)
def test_call_breaks_no_rule_before_it_is_changed(operator: str) -> None:
    for breach in cases_of(operator).breaches().values():
        if breach.changes:
            assert plan_of(breach.case).units > 0
