"""Trials in the client's process: the service that expected values come from, and warnings."""

from collections.abc import Collection
from pathlib import Path

import pytest

from client.conform.sample_results import HEADER
from client.fake_service import FakeService, refusal
from opserve.v1.operator_service_pb2 import RuleWarning
from opserve_client import Client
from opserve_client.conform.backend import LocalBackend
from opserve_client.conform.targets.device import DeviceTarget, SessionOptions, Sessions
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.conform.trial import LocalTrial, at_once
from opserve_client.rule_warnings import DocumentedRuleWarning
from opserve_kernels.cases.arrays import inputs_in, memory_of
from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Case, Kind
from opserve_kernels.conformance.target import Outcome, Ran
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.verdict.judge_case import Arrays
from opserve_kernels.verdict.verdict import Status

CALL = FoldCall(out=(1, 2, 3, 4), kernel=(1, 1))
WARNING = DocumentedRuleWarning(RuleWarning(code=161002, parameter="stride", given="0"))


class Copying:
    """im2col_backward of a kernel with one tap, with a warning."""

    def skips(self, case: Case) -> str:
        del case
        return ""

    async def run(self, case: Case, before: Arrays, *, read: Collection[str]) -> Outcome:
        del read
        (given,) = inputs_in(case, before).values()
        return Ran(outputs={"out": given.reshape(1, 2, 3, 4)}, warnings=(WARNING,))

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def trial_on(client: Client) -> LocalTrial:
    reference = Sessions(client, SessionOptions(), sleep=lambda _: None)
    return LocalTrial(header=HEADER, target=Copying(), backend=LocalBackend(reference))


@pytest.mark.parametrize(("kind", "calls"), [(Kind.INTEGER, 1), (Kind.NORMAL, 2)])
def test_magnitudes_are_requested_where_a_verdict_needs_them_and_all_values_once(
    client: Client, fake: FakeService, kind: Kind, calls: int
) -> None:
    trial = trial_on(client)
    results = [trial.run(CALL.case(Setting(kind=kind))) for _ in range(2)]
    assert fake.commands.count("execute") == calls
    assert [one.verdict.status for one in results] == [Status.PASSED] * 2
    assert results[0].warnings == (str(WARNING),)


def test_a_reference_that_does_not_answer_is_no_verdict(client: Client, fake: FakeService) -> None:
    fake.failures["Submit"] = [refusal(507901, "service", "away") for _ in range(1000)]
    with pytest.raises(InfrastructureError, match=r"expected values of im2col_backward.*away"):
        trial_on(client).run(CALL.case())


def test_a_device_is_read_as_far_as_it_is_wanted(client: Client) -> None:
    case = CALL.case()
    target = DeviceTarget(client, "", SessionOptions())
    before = memory_of(case, 0)
    for read in ({"out"}, {"out", "grad_output"}):
        outcome = at_once(target.run(case, before, read=read))
        assert isinstance(outcome, Ran)
        assert set(outcome.storages) == read


def test_a_coroutine_that_waits_is_an_error() -> None:
    class Waiting:
        def __await__(self) -> object:
            yield

    async def wait() -> None:
        await Waiting()  # type: ignore[misc]  # it waits for ever

    with pytest.raises(RuntimeError, match="waited"):
        at_once(wait())
