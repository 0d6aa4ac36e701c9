"""Cases that must be refused for a rule of the vendor's page, on a target that warns of it."""

from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from opserve.v1.operator_service_pb2 import RuleWarning
from opserve_client.arguments import DocumentedRulesName
from opserve_client.conform.goldens import Goldens
from opserve_client.conform.targets.target import Outcome, Ran, Tensors
from opserve_client.conform.trial import Trial
from opserve_client.rule_warnings import DocumentedRuleWarning
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals.changes import source_of
from opserve_kernels.cases.refusals.rows import refusals_of
from opserve_kernels.cases.registry import cases_of
from opserve_kernels.operator import Rule
from opserve_kernels.verdict.verdict import Status


@dataclass
class Lenient:
    """Accepts every call, with warnings."""

    warnings: tuple[DocumentedRuleWarning, ...]
    has_codes: bool = field(default=True, init=False)

    def run(self, case: Case, tensors: Tensors) -> Outcome:
        del case, tensors
        return Ran(outputs={}, warnings=self.warnings)

    def close(self) -> None:
        pass


RULES = {rule.broken: rule for rule in cases_of("convolution_backward").rules}
CASES = {case.source: case for case in refusals_of("convolution_backward")}
PAGE, CONTRADICTED = RULES["not the channels"], RULES["four values"]
SOURCE = RULES["not zero, transposed is false"]
PAGE_CASE, SOURCE_CASE = CASES[source_of(PAGE)], CASES[source_of(SOURCE)]
OWN_CASE = replace(PAGE_CASE, source="mine")


def warning_of(rule: Rule, **changes: str) -> DocumentedRuleWarning:
    members = {"name": rule.status.name, "parameter": rule.parameter, "sentence": rule.sentence}
    return DocumentedRuleWarning(RuleWarning(code=161002, **members | changes))


@pytest.mark.parametrize(
    ("case", "warnings", "terms", "status"),
    [
        (PAGE_CASE, (), "warn", Status.FAILED),
        (PAGE_CASE, (warning_of(CONTRADICTED), warning_of(PAGE)), "warn", Status.PASSED),
        (PAGE_CASE, (warning_of(PAGE),), "error", Status.FAILED),
        (PAGE_CASE, (warning_of(CONTRADICTED),), "warn", Status.FAILED),
        (PAGE_CASE, (warning_of(PAGE, parameter="stride"),), "warn", Status.FAILED),
        (PAGE_CASE, (warning_of(PAGE, sentence="another"),), "warn", Status.FAILED),
        (PAGE_CASE, (warning_of(PAGE, name="ACLNN_ERR_OTHER"),), "warn", Status.FAILED),
        (SOURCE_CASE, (warning_of(SOURCE),), "warn", Status.FAILED),
        (SOURCE_CASE, (warning_of(CONTRADICTED),), "warn", Status.FAILED),
        (OWN_CASE, (warning_of(PAGE),), "warn", Status.PASSED),
        (OWN_CASE, (warning_of(PAGE),), "error", Status.FAILED),
        (OWN_CASE, (warning_of(CONTRADICTED),), "error", Status.PASSED),
        (OWN_CASE, (warning_of(SOURCE),), "warn", Status.FAILED),
    ],
)
def test_an_accepted_call_passes_if_a_rule_that_may_be_a_warning_is_warned_of(
    case: Case,
    warnings: tuple[DocumentedRuleWarning, ...],
    terms: DocumentedRulesName,
    status: Status,
) -> None:
    trial = Trial(
        target=Lenient(warnings),
        goldens=cast("Goldens", None),  # nothing is computed
        contracts={case.operator: "1"},
        seed=0,
        documented_rules=terms,
    )
    result = trial.run(case)
    assert result.verdict.status is status
    assert result.warnings == tuple(map(str, warnings))
    assert ("warning" in result.verdict.reason) == (status is Status.PASSED)
