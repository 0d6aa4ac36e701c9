"""Cases tried in processes, against expected values of a real service."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from opserve_client.conform.record import Header, Result, RunRecord, read_record
from opserve_client.conform.run import run_cases
from opserve_client.conform.selection import digest_of
from opserve_client.conform.service import contracts_of
from opserve_client.conform.targets.named import Access
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.conform.workers import Setup, Workers, _Waiting, make_trial
from opserve_client.private_service import Addresses
from opserve_kernels.cases.calls import Layout, Setting
from opserve_kernels.cases.case import Case, Kind
from opserve_kernels.conformance.trial import unjudged
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.tensor import DataType
from opserve_kernels.verdict.verdict import Status

REAL = Setting(kind=Kind.NORMAL)
STRIDED = Setting(layouts={"out": Layout(strides=(40, 20, 5, 1), offset=3)})
FOLD = FoldCall(out=(2, 2, 4, 4), kernel=(2, 2))
CASES = (FOLD.case(), FOLD.case(REAL), FOLD.case(STRIDED))
LARGE = ConvolutionCall(input=(2, 8, 40, 40), weight=(8, 8, 3, 3), padding=(1, 1)).case(REAL)
PROJECTED = ConvolutionCall(
    input=(1, 512, 702), weight=(512, 512, 3), mask=(True, True, False)
).case()
REFUSED = Case(
    operator="im2col_backward",
    profile="ascend910b",
    tensors={**CASES[0].inputs},
    arguments=CASES[0].arguments,
    expect="ACLNN_ERR_PARAM_NULLPTR",
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def setup(address: str, target: str, cases: Sequence[Case], *, timeout_s: float = 50.0) -> Setup:
    header = Header(
        tool="0",
        suite="mine",
        digest="",
        cases=len(cases),
        chosen=digest_of(cases),
        seed=5,
        target=target,
        contracts={"im2col_backward": "2", "convolution_backward": "2"},
    )
    return Setup(header=header, access=Access(address=address), timeout_s=timeout_s)


def results(service: Addresses, target: str, *cases: Case) -> list[Result]:
    """In this process."""
    with closing(make_trial(setup(service.grpc, target, cases))) as trial:
        return [trial.run(case) for case in cases]


def in_processes(made: Setup, cases: Sequence[Case]) -> list[Result]:
    """In one, and the one that replaces it."""
    with Workers(count=1) as workers:
        return list(workers.results(cases, made))


def recorded(
    cases: Sequence[Case],
    made: Setup,
    reported: list[str],
    *,
    jobs: int = 1,
    folder: Path | None = None,
    resume: bool = False,
) -> RunRecord:
    """A run; reports the ids as results come."""
    with Workers(count=jobs) as workers:
        return run_cases(
            cases,
            made,
            workers=workers,
            folder=folder,
            resume=resume,
            on_result=lambda result: reported.append(result.case.id),
        )


def statuses(found: list[Result]) -> list[Status]:
    return [result.verdict.status for result in found]


@pytest.mark.parametrize("target", ["opserve", "client.conform.kernels:fold"])
def test_right_results_pass(target: str, service: Addresses) -> None:
    found = results(service, target, *CASES)
    assert statuses(found) == [Status.PASSED] * 3
    layers = [result.verdict.outputs[0].layers[0].name for result in found]
    assert layers == ["exact", "rounding", "exact"]


def test_a_large_case_is_judged_by_its_projections(service: Addresses) -> None:
    (found,) = results(service, "opserve", PROJECTED)
    assert found.verdict.status is Status.PASSED, found.verdict.reason
    assert [output.layers[0].name for output in found.verdict.outputs] == ["projection"] * 2


def test_large_tensors_and_refusals_of_a_device(service: Addresses) -> None:
    large, refused = results(service, f"opserve:{service.rest}/ascend910b", LARGE, REFUSED)
    assert large.verdict.status is Status.PASSED
    assert {output.name for output in large.verdict.outputs} == set(LARGE.written)
    assert refused.verdict.status is Status.PASSED
    assert refused.verdict.refusal is not None


def test_a_device_that_refuses_what_must_succeed_fails(service: Addresses) -> None:
    wrong = FoldCall(out=(2, 2, 4, 4), kernel=(2, 2), dtypes=(DataType.DOUBLE, DataType.DOUBLE))
    (found,) = results(service, "opserve", wrong.case())
    assert found.verdict.status is Status.FAILED
    assert "ACLNN_ERR_PARAM_INVALID instead of no refusal" in found.verdict.reason


def test_cases_of_another_profile_are_left_out(service: Addresses) -> None:
    (found,) = results(service, f"opserve:{service.grpc}/reference", CASES[0])
    assert found.verdict.status is Status.UNIMPLEMENTED


def test_an_input_that_a_function_changes_is_seen(service: Addresses) -> None:
    (found,) = results(service, "client.conform.kernels:careless", CASES[0])
    assert found.verdict.status is Status.FAILED
    assert "grad_output: 1 of" in found.verdict.reason


def test_a_call_against_the_vendors_page_alone_is_judged_though_a_device_would_refuse_it(
    service: Addresses,
) -> None:
    case = ConvolutionCall(input=(1, 2, 5, 5), weight=(3, 2, 3, 3)).case()
    case = replace(case, arguments={**case.arguments, "bias_sizes": (1,)})
    (refused,) = results(service, "opserve", case)
    assert "ACLNN_ERR_PARAM_INVALID instead of no refusal" in refused.verdict.reason
    (found,) = results(service, "client.conform.kernels:giving_nothing", case)
    assert "nothing was given" in found.verdict.reason


def test_a_case_that_does_not_end_is_an_error_and_the_next_one_is_tried(service: Addresses) -> None:
    cases = CASES[:2]
    made = setup(service.grpc, "client.conform.kernels:lasting", cases, timeout_s=1.5)
    found = in_processes(made, cases)
    assert statuses(found) == [Status.ERROR] * 2
    assert found[0].verdict.reason == "no answer within 1.5 s"


def test_a_case_that_ends_its_process_is_an_error_and_the_next_one_is_tried(
    service: Addresses,
) -> None:
    made = setup(service.grpc, "client.conform.kernels:ending", CASES[:2])
    found = in_processes(made, CASES[:2])
    assert statuses(found) == [Status.ERROR] * 2
    assert found[0].verdict.reason == "its process ended with 3"


def test_a_process_that_no_case_is_left_for_ends(service: Addresses) -> None:
    made = setup(service.grpc, "client.conform.kernels:fold", CASES[:1])
    with Workers(count=1) as workers:
        assert statuses(list(workers.results(CASES[:1], made))) == [Status.PASSED]
        assert workers._running == []


def test_an_unreachable_service_is_no_verdict() -> None:
    with pytest.raises(InfrastructureError, match=r"127\.0\.0\.1:9"):
        contracts_of(Access(address="http://127.0.0.1:9"))


def test_a_missing_target_is_reported_by_the_process(service: Addresses) -> None:
    made = setup(service.grpc, "no.such.module:fold", CASES[:1])
    with pytest.raises(InfrastructureError, match="has a module no\\."):
        in_processes(made, CASES[:1])


def test_a_run_resumes_where_it_was_interrupted(service: Addresses, tmp_path: Path) -> None:
    reported: list[str] = []
    made = setup(service.grpc, "client.conform.kernels:fold", CASES)

    def run(*, resume: bool) -> list[Status]:
        reported.clear()
        record = recorded(CASES, made, reported, jobs=2, folder=tmp_path / "run", resume=resume)
        assert [result.case for result in record.results] == list(CASES)
        return statuses(list(record.results))

    assert run(resume=False) == [Status.PASSED] * 3
    path = tmp_path / "run" / "record.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]) + lines[2][:50])
    assert run(resume=True) == [Status.PASSED] * 3
    assert len(reported) == 2
    assert len(read_record(path).results) == 3
    assert run(resume=True) == [Status.PASSED] * 3
    assert not reported


def test_large_cases_are_tried_first_and_recorded_in_the_order_of_the_suite(
    service: Addresses,
) -> None:
    sizes = (2, 5, 3)
    cases = [FoldCall(out=(1, 1, size, size), kernel=(2, 2)).case() for size in sizes]
    reported: list[str] = []
    made = setup(service.grpc, "client.conform.kernels:fold", cases)
    record = recorded(cases, made, reported)
    assert reported == [cases[place].id for place in (1, 2, 0)]
    assert [result.case.id for result in record.results] == [case.id for case in cases]


def test_another_run_is_not_resumed(service: Addresses, tmp_path: Path) -> None:
    def run(target: str) -> None:
        made = setup(service.grpc, target, CASES[:1])
        recorded(CASES[:1], made, [], folder=tmp_path, resume=True)

    run("client.conform.kernels:fold")
    with pytest.raises(InfrastructureError, match="target differ"):
        run("client.conform.kernels:wide")


class LosingService:
    """Workers whose service is lost after the first result."""

    def __init__(self, found: Result) -> None:
        self._found = found

    def results(self, _: Sequence[Case], __: Setup) -> Iterator[Result]:
        yield self._found
        raise InfrastructureError("The service does not answer.")


def test_a_run_that_loses_its_service_names_the_record_and_how_to_continue(tmp_path: Path) -> None:
    made = setup("127.0.0.1:9", "mine:fold", CASES[:2])
    verdict = unjudged(CASES[0], "2", Status.ERROR, "raised")
    workers = cast("Workers", LosingService(Result(case=CASES[0], verdict=verdict)))

    def lost(folder: Path | None) -> str:
        with pytest.raises(InfrastructureError) as raised:
            run_cases(
                CASES[:2],
                made,
                workers=workers,
                folder=folder,
                resume=False,
                on_result=lambda _: None,
            )
        return str(raised.value)

    assert lost(None) == "The service does not answer."
    assert lost(tmp_path) == (
        f"The service does not answer; {tmp_path} has the results so far: --resume continues the "
        "run."
    )
    assert len(read_record(tmp_path / "record.jsonl").results) == 1


def test_the_wait_for_a_service_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    workers = Workers(count=2)
    for reason in ("no connection", "no connection"):
        workers._report_wait(_Waiting(reason=reason))
    assert capsys.readouterr().err == "waiting up to 30 s for the service: no connection\n"
