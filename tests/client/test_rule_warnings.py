"""Accuracy, documented rules and the warnings of broken ones, in the SDK and in `conform`."""

import asyncio
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from client.conform.test_record import RECORD
from client.fake_service import FakeService
from client.samples import convolution, numbers
from opserve.v1.operator_service_pb2 import RuleWarning
from opserve_client import (
    AclrtError,
    AsyncClient,
    Client,
    DocumentedRuleWarning,
    Im2colBackward,
    Session,
)
from opserve_client.conform.on_device import plan_on, run_on
from opserve_client.conform.record import read_record, write_record
from opserve_client.conform.show import show_summary
from opserve_client.conform.summary import Summary
from opserve_client.conform.targets.device import SessionOptions, Sessions
from opserve_client.transports import AsyncMemoryTransport
from opserve_kernels.cases.arrays import arrays_of
from opserve_kernels.conformance.target import Ran
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall

BROKEN = RuleWarning(
    code=161002,
    name="ACLNN_ERR_PARAM_INVALID",
    domain="opserve",
    parameter="bias_sizes",
    given="[4]",
    allowed="[8]",
    sentence="必须与weight的第一维一致",
)


@pytest.fixture
def warned(session: Session, fake: FakeService) -> Session:
    fake.broken = [BROKEN]
    return session


def test_a_session_has_direct_sums_and_rules_as_errors_by_default(
    client: Client, fake: FakeService
) -> None:
    with client.open_session():
        assert (fake.opened.accuracy, fake.opened.documented_rules) == ("direct", "error")
    with client.open_session(accuracy="fast", documented_rules="warn"):
        assert (fake.opened.accuracy, fake.opened.documented_rules) == ("fast", "warn")


@pytest.mark.parametrize("parameter", ["accuracy", "documented_rules"])
def test_a_value_that_is_no_choice_is_refused_by_name(client: Client, parameter: str) -> None:
    given: dict[str, Any] = {parameter: "both"}
    with pytest.raises(AclrtError) as refusal:
        client.open_session(**given)
    assert (refusal.value.code, refusal.value.parameter) == (107000, parameter)


@pytest.mark.parametrize("size", [4, 100])
def test_a_run_warns_of_each_broken_rule_where_it_is_called(warned: Session, size: int) -> None:
    call = convolution(input=numbers(2, 3, size, size), grad_output=numbers(2, 4, size, size))
    with pytest.warns(DocumentedRuleWarning, match="bias_sizes") as found:
        warned.run(call)
    (one,) = found
    broken = cast("DocumentedRuleWarning", one.message)
    assert one.filename == __file__
    assert (broken.code, broken.name, broken.domain) == (161002, BROKEN.name, "opserve")
    assert (broken.parameter, broken.given, broken.allowed) == ("bias_sizes", "[4]", "[8]")
    assert broken.sentence == BROKEN.sentence


def test_a_run_in_code_without_a_module_warns_too(warned: Session) -> None:
    names = {"session": warned, "call": convolution()}
    with pytest.warns(DocumentedRuleWarning, match="bias_sizes"):
        exec("session.run(call)", names)  # noqa: S102  the text above


def test_a_plan_has_the_broken_rules_that_were_warned_of(warned: Session) -> None:
    columns = warned.empty((1, 4), "float32")
    call = Im2colBackward(
        grad_output=columns,
        input_size=[1, 4],
        kernel_size=[1, 1],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
        out=warned.empty((1, 1, 4), "float32"),
    )
    with pytest.warns(DocumentedRuleWarning) as found:
        plan = warned.get_workspace_size(call)
    assert [one.message for one in found] == list(plan.warnings)
    assert plan.warnings[0].parameter == "bias_sizes"


def test_an_async_run_warns_where_it_is_awaited(fake: FakeService) -> None:
    fake.broken = [BROKEN]

    async def run() -> None:
        async with (
            AsyncClient(transport=AsyncMemoryTransport(fake)) as client,
            client.open_session() as session,
        ):
            await session.run(convolution())

    with pytest.warns(DocumentedRuleWarning) as found:
        asyncio.run(run())
    assert [one.filename for one in found] == [__file__]


def test_a_call_that_breaks_no_rule_warns_of_nothing(session: Session) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.run(convolution())


@pytest.mark.parametrize("rows", [16, 20_000])
def test_a_case_keeps_the_broken_rules_of_its_call(warned: Session, rows: int) -> None:
    case = FoldCall(out=(1, 1, rows, 1), kernel=(1, 1)).case()
    storages = {name: placed.storage for name, placed in arrays_of(case, 0).items()}
    planned, ran = plan_on(warned, case), run_on(warned, case, storages, read=["out"])
    for outcome in (planned, ran):
        assert isinstance(outcome, Ran)
        assert [one.parameter for one in outcome.warnings] == ["bias_sizes"]


def test_cases_run_with_the_defaults_of_a_session(client: Client, fake: FakeService) -> None:
    sessions = Sessions(client, SessionOptions())
    sessions.on("ascend910b")
    assert (fake.opened.accuracy, fake.opened.documented_rules) == ("direct", "error")
    assert "SetDeterministicLevel" not in fake.calls
    other = Sessions(client, SessionOptions(accuracy="fast", documented_rules="warn"))
    other.on("ascend910b")
    assert (fake.opened.accuracy, fake.opened.documented_rules) == ("fast", "warn")


def test_a_record_and_its_summary_report_the_terms_and_the_broken_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = RECORD.results
    header = replace(RECORD.header, accuracy="fast", documented_rules="warn")
    warned = replace(first, warnings=("bias_sizes: given [4]",))
    write_record(replace(RECORD, header=header, results=(warned, second)), tmp_path / "run")
    again = read_record(tmp_path / "run")
    assert (again.header.accuracy, again.header.documented_rules) == ("fast", "warn")
    assert [one.warnings for one in again.results] == [("bias_sizes: given [4]",), ()]
    show_summary(Summary(record=again), as_json=False)
    assert "accepted calls that break a rule of the vendor's page: 1" in capsys.readouterr().out
    summary = Summary(record=again).to_json()
    assert (summary["accuracy"], summary["documented_rules"]) == ("fast", "warn")
    assert summary["warnings"] == [{"case": first.case.id, "warnings": ["bias_sizes: given [4]"]}]
