"""Options of a session's plans: accuracy, documented rules, threads and workspace."""

from dataclasses import replace
from typing import Any

import pytest

from opserve_kernels.operator import Accuracy, DocumentedRules, Plan, PlanOptions
from opserve_kernels.profiles import Profile
from opserve_kernels.registry import OPERATORS
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.principal import LOCAL
from opserve_server.core.session import DeterministicLevel
from opserve_server.core.session_request import SessionRequest
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
@pytest.mark.parametrize("accuracy", list(Accuracy))
async def test_the_accuracy_of_a_session_does_not_depend_on_its_deterministic_level(
    caller: Caller, asked: list[PlanOptions], level: DeterministicLevel, accuracy: Accuracy
) -> None:
    opened = await caller.service.open_session(LOCAL, SessionRequest(accuracy=accuracy.value))
    caller.name = opened.session
    caller.service.set_deterministic_level(LOCAL, caller.name, level)
    await caller.plan()
    assert [options.accuracy for options in asked] == [accuracy]


async def test_a_session_has_direct_sums_and_documented_rules_as_errors_by_default(
    caller: Caller, asked: list[PlanOptions]
) -> None:
    await caller.plan()
    (options,) = asked
    assert (options.accuracy, options.documented_rules) == (Accuracy.DIRECT, DocumentedRules.ERROR)
    found = caller.service.get_session(LOCAL, caller.name)
    assert (found.accuracy, found.documented_rules) == ("direct", "error")


async def test_documented_rules_of_a_session_reach_its_plans(
    caller: Caller, asked: list[PlanOptions]
) -> None:
    opened = await caller.service.open_session(LOCAL, SessionRequest(documented_rules="warn"))
    caller.name = opened.session
    await caller.plan()
    assert [options.documented_rules for options in asked] == [DocumentedRules.WARN]
    assert caller.service.get_session(LOCAL, caller.name).documented_rules == "warn"


@pytest.mark.parametrize("parameter", ["accuracy", "documented_rules"])
async def test_a_value_that_is_no_choice_is_refused_with_those_that_are(
    caller: Caller, parameter: str
) -> None:
    request = SessionRequest(**{parameter: "exact" * 100})  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument) as refusal:
        await caller.service.open_session(LOCAL, request)
    assert refusal.value.status.value == 107000
    assert refusal.value.parameter == parameter
    assert refusal.value.given == ("exact" * 100)[:64]
    assert (
        refusal.value.allowed
        == {
            "accuracy": "direct or fast",
            "documented_rules": "error or warn",
        }[parameter]
    )


async def test_a_plan_of_another_level_is_made_anew(
    caller: Caller, asked: list[PlanOptions]
) -> None:
    caller.device.threads = 3
    caller.service.set_deterministic_level(LOCAL, caller.name, DeterministicLevel.OFF)
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
        (DeterministicLevel.BATCH, 1),
    ],
)
async def test_calls_may_use_all_threads_of_a_device_below_the_strongest_level(
    caller: Caller, asked: list[PlanOptions], level: DeterministicLevel, threads: int
) -> None:
    caller.device.threads = 3
    caller.service.set_deterministic_level(LOCAL, caller.name, level)
    await caller.plan()
    assert [options.threads for options in asked] == [threads]


@pytest.mark.parametrize("level", list(DeterministicLevel))
async def test_results_are_batch_consistent_at_the_level_of_that_name_alone(
    caller: Caller, asked: list[PlanOptions], level: DeterministicLevel
) -> None:
    caller.service.set_deterministic_level(LOCAL, caller.name, level)
    await caller.plan()
    is_batch = level is DeterministicLevel.BATCH
    assert [options.batch_consistent for options in asked] == [is_batch]


async def test_a_limit_of_the_workspace_reaches_plans(
    caller: Caller, asked: list[PlanOptions]
) -> None:
    await caller.plan()
    opened = await caller.service.open_session(LOCAL, SessionRequest(workspace_limit_bytes=4096))
    caller.name = opened.session
    await caller.plan()
    assert [options.workspace_limit for options in asked] == [None, 4096]
