"""A device of the service as a target: phase one, and cases that are too large."""

from dataclasses import dataclass, field
from typing import cast
from unittest import mock

import pytest

from opserve_kernels.cases.refusals.changes import PAGE_RULE
from opserve_kernels.cases.refusals.rows import refusals_of
from opserve_kernels.conformance.target import Ran, Refused
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_server.conformance.execution import LeasedDevice
from opserve_server.conformance.reference import ReferenceDevice
from opserve_server.core.commands import Command
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.leases import Lease
from opserve_server.core.operator_commands import DestroyExecutor
from opserve_server.core.results import Planned, Result, RuleWarning
from server.conformance_service import LIMITS

(CASE,) = (case for case in refusals_of("im2col_backward") if PAGE_RULE in case.tags)
WARNING = RuleWarning(
    code=161002,
    name=CASE.expect,
    domain="opserve",
    parameter="input_size",
    given="[0, 7]",
    allowed="values >= 1",
    sentence="值大于0。",
)


@dataclass
class PhaseOne:
    """Accepts every call with a warning, unless there is an error."""

    error: Exception | None = None
    commands: list[Command] = field(default_factory=list[Command])

    async def run(self, command: Command) -> Result:
        self.commands.append(command)
        if self.error is not None:
            raise self.error
        return Planned(executor=7, workspace_size=0, warnings=(WARNING,))


def target_on(phase_one: PhaseOne) -> LeasedDevice:
    reference = ReferenceDevice(mock.Mock(), LIMITS)
    return LeasedDevice(lease=cast("Lease", phase_one), check_size=reference.check_size)


async def test_an_accepted_call_has_its_warnings_and_leaves_no_executor() -> None:
    phase_one = PhaseOne()
    outcome = await target_on(phase_one).run(CASE, {}, read=())
    assert outcome == Ran(outputs={}, warnings=(WARNING,))
    assert phase_one.commands[1:] == [DestroyExecutor(executor=7)]


async def test_a_refused_call_has_its_code() -> None:
    error = CASE_ERROR
    outcome = await target_on(PhaseOne(error)).run(CASE, {}, read=())
    assert isinstance(outcome, Refused)
    assert (outcome.code.name, outcome.reason) == (error.status.name, error.message)


@pytest.mark.parametrize(("rows", "skips"), [(4, False), (LIMITS.elements, True)])
def test_a_case_with_a_tensor_that_is_too_large_is_skipped(rows: int, *, skips: bool) -> None:
    case = FoldCall(out=(1, 2, rows, 1), kernel=(1, 1)).case()
    reason = target_on(PhaseOne()).skips(case)
    assert bool(reason) is skips
    assert ("elements of a tensor" in reason) is skips


def test_a_call_that_must_be_refused_is_never_too_large() -> None:
    assert not target_on(PhaseOne()).skips(CASE)


CASE_ERROR = InvalidArgument(mock.Mock(value=161002), "input_size: given [0, 7]")
