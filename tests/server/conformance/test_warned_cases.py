"""Cases that must be refused, on a device that warns of the rule that they break."""

from dataclasses import dataclass
from typing import cast

import pytest

from opserve_kernels.cases.refusals.changes import PAGE_RULE
from opserve_kernels.cases.refusals.rows import refusals_of
from opserve_kernels.operator import DocumentedRules
from opserve_server.conformance.execution import plan_case
from opserve_server.core.commands import Command
from opserve_server.core.leases import Lease
from opserve_server.core.results import Planned, Result, RuleWarning

(CASE,) = (case for case in refusals_of("im2col_backward") if PAGE_RULE in case.tags)
SENTENCE = "值大于0。"


@dataclass
class Lenient:
    """Accepts every call, with a warning."""

    parameter: str

    async def run(self, command: Command) -> Result:
        del command
        warning = RuleWarning(
            code=161002,
            name=CASE.expect,
            domain="opserve",
            parameter=self.parameter,
            given="[0, 7]",
            allowed="values >= 1",
            sentence=SENTENCE,
        )
        return Planned(executor=1, workspace_size=0, warnings=(warning,))


@pytest.mark.parametrize(
    ("parameter", "documented_rules", "passes"),
    [
        ("input_size", DocumentedRules.WARN, True),
        ("input_size", DocumentedRules.ERROR, False),
        ("stride", DocumentedRules.WARN, False),
    ],
)
async def test_a_warning_is_as_good_as_its_code_where_the_rule_may_be_a_warning(
    parameter: str, documented_rules: DocumentedRules, *, passes: bool
) -> None:
    lease = cast("Lease", Lenient(parameter))
    code, warnings = await plan_case(lease, CASE, documented_rules)
    assert (code is not None) == passes
    assert [one.parameter for one in warnings] == [parameter]
