"""Refusals with code and parameter: tables, rules and samples agree."""

from pathlib import Path

import pytest

import opserve_kernels
from kernels.execution import plan_of
from kernels.samples import CONTRADICTED_SAMPLES, REGISTRY_ERROR_SAMPLES, REGISTRY_SAMPLES
from kernels.samples.sample import ErrorSample
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import AnyStatus, Status
from sentences import faults_of

_ALL_ERRORS = [sample for samples in REGISTRY_ERROR_SAMPLES.values() for sample in samples]
_OPERATORS = Path(opserve_kernels.__file__).parent / "operators"
_COLUMNS = 4
Row = tuple[str, str, str, str]

each_operator = pytest.mark.parametrize("operator", OPERATORS)


def _spelled(status: AnyStatus) -> str:
    """As a family writes its codes: aclnn's are numbers, the others' are names."""
    return str(int(status)) if isinstance(status, Status) else status.name


def _table(operator: str) -> list[Row]:
    """The rows of an operator's error table: code, parameter, rule and source."""
    text = (_OPERATORS / operator / "README.md").read_text(encoding="utf-8")
    lines = text.split("\n## Errors\n")[1].split("\n## ")[0].splitlines()
    rows: list[Row] = []
    for line in lines:
        cells = [cell.strip(" `") for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == _COLUMNS:
            rows.append((cells[0], cells[1], cells[2], cells[3]))
    assert rows[0][:2] == ("code", "parameter")
    return rows[2:]


@pytest.mark.parametrize("error", _ALL_ERRORS, ids=lambda error: error.sample.name)
def test_broken_rule_is_refused_with_its_code_and_parameter(error: ErrorSample) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(error.sample)

    assert (refusal.value.status, refusal.value.parameter) == (error.status, error.parameter)
    assert refusal.value.given
    assert refusal.value.allowed
    assert refusal.value.message.startswith(f"{error.parameter} ")
    assert faults_of(refusal.value.message) == []


@each_operator
def test_every_row_of_the_error_table_is_a_rule(operator: str) -> None:
    rules = [
        (_spelled(r.status), r.parameter, r.broken, r.origin.value)
        for r in OPERATORS[operator].rules
    ]

    assert _table(operator) == rules
    assert len(set(rules)) == len(rules)


@each_operator
def test_every_rule_has_its_sample(operator: str) -> None:
    errors = (*REGISTRY_ERROR_SAMPLES[operator], *CONTRADICTED_SAMPLES.get(operator, ()))
    samples = [(s.status, s.parameter, s.rule) for s in errors]

    rules = {(r.status, r.parameter, r.broken) for r in OPERATORS[operator].rules}
    assert set(samples) == rules
    assert len(samples) == len(rules)


@each_operator
def test_sample_of_a_rule_is_on_a_profile_where_the_rule_holds(operator: str) -> None:
    rules = {(r.parameter, r.broken): r for r in OPERATORS[operator].rules}
    supported = tuple(OPERATORS[operator].support)

    for error in REGISTRY_ERROR_SAMPLES[operator]:
        rule = rules[error.parameter, error.rule]
        assert error.sample.profile in (rule.profiles or supported), error.name


@each_operator
def test_rules_and_limits_name_only_profiles_that_have_the_operator(operator: str) -> None:
    contract = OPERATORS[operator]

    named = {name for rule in contract.rules for name in rule.profiles}
    named |= {name for limit in contract.limits for name in limit.profiles}

    assert set(contract.support) <= set(PROFILES)
    assert named <= set(contract.support)


@pytest.mark.parametrize("operator", REGISTRY_SAMPLES)
def test_operator_has_at_least_25_samples_of_different_names(operator: str) -> None:
    names = [sample.name for sample in REGISTRY_SAMPLES[operator]]

    assert len(names) >= 25
    assert len(set(names)) == len(names)


@each_operator
def test_operator_has_samples_on_every_profile_that_has_it(operator: str) -> None:
    used = {sample.profile for sample in REGISTRY_SAMPLES[operator]}

    assert used == set(OPERATORS[operator].support)
