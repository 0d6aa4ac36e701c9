"""What a session asks of its plans: strict sums by the deterministic level, and less workspace."""

from dataclasses import replace
from typing import Any

import pytest

from opserve_kernels.operator import Plan, PlanOptions
from opserve_kernels.profiles import Profile
from opserve_kernels.registry import OPERATORS
from opserve_server.core.asking import SessionRequest
from opserve_server.core.principal import LOCAL
from opserve_server.core.session import DeterministicLevel
from server.core.caller import Caller


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[PlanOptions]:
    """The options of every call of im2col_backward that is planned."""
    operator = OPERATORS["im2col_backward"]
    options_of_plans: list[PlanOptions] = []

    def plan(arguments: Any, profile: Profile, options: PlanOptions) -> Plan:
        options_of_plans.append(options)
        return operator.plan(arguments, profile, options)

    monkeypatch.setitem(OPERATORS, operator.name, replace(operator, plan=plan))
    return options_of_plans


@pytest.mark.parametrize("level", list(DeterministicLevel))
async def test_a_deterministic_level_makes_plans_strict(
    caller: Caller, asked: list[PlanOptions], level: DeterministicLevel
) -> None:
    caller.service.set_deterministic_level(LOCAL, caller.name, level)
    await caller.plan()
    assert [options.strict for options in asked] == [level != DeterministicLevel.OFF]


async def test_a_plan_of_another_level_is_made_anew(
    caller: Caller, asked: list[PlanOptions]
) -> None:
    await caller.plan()
    caller.service.set_deterministic_level(LOCAL, caller.name, DeterministicLevel.STRONG)
    await caller.plan()
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("level", "threads"),
    [
        (DeterministicLevel.OFF, 3),
        (DeterministicLevel.DETERMINISTIC, 3),
        (DeterministicLevel.STRONG, 1),
    ],
)
async def test_calls_may_use_all_threads_of_a_device_below_the_strongest_level(
    caller: Caller, asked: list[PlanOptions], level: DeterministicLevel, threads: int
) -> None:
    caller.device.threads = 3
    caller.service.set_deterministic_level(LOCAL, caller.name, level)
    await caller.plan()
    assert [options.threads for options in asked] == [threads]


async def test_a_limit_of_the_workspace_reaches_plans(
    caller: Caller, asked: list[PlanOptions]
) -> None:
    await caller.plan()
    opened = await caller.service.open_session(LOCAL, SessionRequest(workspace_limit_bytes=4096))
    caller.name = opened.session
    await caller.plan()
    assert [options.workspace_limit for options in asked] == [None, 4096]
