"""Cases that must be refused for a rule of the vendor's page, on a target that warns of it."""

from dataclasses import dataclass, field
from typing import cast

import pytest

from opserve.v1.operator_service_pb2 import RuleWarning
from opserve_client.conform.goldens import Goldens
from opserve_client.conform.targets.target import Outcome, Ran, Tensors
from opserve_client.conform.trial import Trial
from opserve_client.rule_warnings import DocumentedRuleWarning
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals.rows import refusals_of
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


CASE = next(iter(refusals_of("convolution_backward")))


@pytest.mark.parametrize(
    ("names", "status"),
    [
        ((), Status.FAILED),
        (("ACLNN_ERR_OTHER",), Status.FAILED),
        (("ACLNN_ERR_OTHER", CASE.expect), Status.PASSED),
    ],
)
def test_an_accepted_call_passes_if_it_is_warned_of_with_the_expected_code(
    names: tuple[str, ...], status: Status
) -> None:
    warnings = tuple(
        DocumentedRuleWarning(RuleWarning(code=161002, name=name, parameter="stride"))
        for name in names
    )
    goldens = cast("Goldens", None)  # nothing is computed
    contracts = {CASE.operator: "1"}
    trial = Trial(target=Lenient(warnings), goldens=goldens, contracts=contracts, seed=0)
    result = trial.run(CASE)
    assert result.verdict.status is status
    assert result.warnings == tuple(map(str, warnings))
    assert ("warning" in result.verdict.reason) == (status is Status.PASSED)
