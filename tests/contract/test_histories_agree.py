"""Over gRPC and Connect: runs that were judged elsewhere, names of runs, and what changed."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import grpc
import pytest

from benchmarks.service_with_keys import empty_store
from client.conform.sample_results import folded
from contract.apis import Refusal, client_over, refusal
from opserve.v1.conformance_service_pb2 import (
    CaseResult,
    ReportRunRequest,
    Run,
)
from opserve.v1.conformance_service_pb2_grpc import ConformanceServiceStub
from opserve_client import AsyncClient, OpserveError
from opserve_client.private_service import Addresses, private_service
from opserve_client.wire import chunks
from opserve_kernels.conformance.record import result_of

pytestmark = pytest.mark.system
APIS = ["gRPC", "Connect", "REST"]
DIGEST = f"sha256:{'0' * 64}"
WRONG = result_of(folded().verdict, seconds=0.25)


def result(case: str, status: str = "PASSED", worst: float = 0.0) -> CaseResult:
    return CaseResult(case=case, status=status, worst=worst)


BEFORE = [
    CaseResult(case=WRONG.case, status="PASSED", worst=0.125, seconds=0.5),
    result("mended", "FAILED", worst=1e9),
    result("left.out"),
    result("near"),
    result("gone"),
]
NOW = [
    CaseResult(
        case=WRONG.case,
        status="FAILED",
        reason=WRONG.reason,
        worst=WRONG.worst,
        seconds=0.25,
        verdict=WRONG.verdict,
    ),
    result("mended"),
    result("left.out", "SKIPPED"),
    result("near", worst=0.875),
    result("new", "ERROR"),
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    url = empty_store(tmp_path_factory.mktemp("history"))
    limits = {"conformance_baselines_limit": "3", "conformance_report_bytes_limit": "65536"}
    with private_service(store_url=url, devices='["ascend910b"]', **limits) as addresses:
        yield addresses


@asynccontextmanager
async def client_of(service: Addresses, api: str) -> AsyncGenerator[AsyncClient]:
    async with client_over(service, api) as made:
        yield made


async def reported(
    client: AsyncClient, results: list[CaseResult], target: str, digest: str = DIGEST
) -> Run:
    return await client.conformance.report_run(
        results, target=target, suite="my layers", digest=digest, seed=7, tool="opserve 1.2"
    )


@pytest.mark.parametrize("api", APIS)
async def test_a_run_that_was_judged_elsewhere_is_in_the_history(kept: Addresses, api: str) -> None:
    async with client_of(kept, api) as client:
        run = await reported(client, NOW, f"mine/{api}")
        found = await client.conformance.get_run(run.id, wait_s=1)
        (listed,) = (await client.conformance.list_runs(f"mine/{api}")).runs
        results = await client.conformance.list_results(run.id)
        (failed,) = await client.conformance.list_results(run.id, status="FAILED")
    assert run == found == listed
    assert (run.state, run.origin, run.tool) == ("ENDED", "REPORTED", "opserve 1.2")
    assert (run.repeats, run.deterministic_level) == (0, "")
    assert (run.suite, run.seed, run.digest, run.cases) == ("my layers", 7, DIGEST, 5)
    assert {one.status: one.cases for one in run.counts} == {
        "PASSED": 2,
        "FAILED": 1,
        "SKIPPED": 1,
        "ERROR": 1,
    }
    assert (run.worst, run.HasField("ended_at")) == (0.875, True)
    assert results == NOW
    assert json.loads(failed.verdict)["outputs"][0]["errors"] == 24


@pytest.mark.parametrize("api", APIS)
async def test_results_are_split_into_as_many_messages_as_needed(
    kept: Addresses, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "_RESULTS", 7)
    results = [result(f"case{n}", worst=n / 64) for n in range(50)]
    async with client_of(kept, api) as client:
        run = await reported(client, results, "many")
        assert await client.conformance.list_results(run.id) == results


@pytest.mark.parametrize("api", APIS)
async def test_a_name_refers_to_its_run_until_it_is_removed(kept: Addresses, api: str) -> None:
    async with client_of(kept, api) as client:
        ask = client.conformance
        first, second = (
            await reported(client, BEFORE, "named"),
            await reported(client, NOW, "named"),
        )
        assert (await ask.set_baseline("main", first.id)).run == first.id
        assert await ask.get_run("main") == first
        assert await ask.list_results("main") == BEFORE
        moved = await ask.set_baseline("main", second.id)
        best = await ask.set_baseline("best", "main")
        assert best.run == moved.run == second.id
        assert await ask.list_baselines() == [best, moved]
        assert await ask.delete_baseline("main") == moved
        await ask.delete_baseline("best")
        assert await ask.list_baselines() == []
        with pytest.raises(OpserveError):
            await ask.get_run("main")


@pytest.mark.parametrize("api", APIS)
async def test_two_runs_are_compared(kept: Addresses, api: str) -> None:
    async with client_of(kept, api) as client:
        ask = client.conformance
        before = await reported(client, BEFORE, "compared")
        now = await reported(client, NOW, "compared", digest=f"sha256:{'1' * 64}")
        await ask.set_baseline("last-week", before.id)
        found = await ask.compare_runs("last-week", now.id)
        same = await ask.compare_runs(now.id, now.id)
        await ask.delete_baseline("last-week")
    assert (found.before, found.now, found.same_suite) == (before, now, False)
    assert list(found.new_failures) == [WRONG.case, "new"]
    assert list(found.fixed) == ["mended"]
    assert list(found.newly_skipped) == ["left.out"]
    assert [(one.case, one.before, one.now) for one in found.drifts] == [("near", 0, 0.875)]
    assert found.missing == 1
    assert (same.same_suite, len(same.new_failures), same.missing) == (True, 0, 0)


async def test_both_apis_refuse_alike_and_keep_nothing(kept: Addresses) -> None:
    refusals = list[Refusal]()
    for api in APIS:
        async with client_of(kept, api) as client:
            ask = client.conformance
            run = await reported(client, BEFORE, "refused")
            for name in ("one", "two", "three"):
                await ask.set_baseline(name, run.id)
            calls = [
                reported(client, [], "refused"),
                reported(client, [*BEFORE, result("a b")], "refused"),
                reported(client, [*BEFORE, result("one", "FINE")], "refused"),
                reported(client, [*BEFORE, BEFORE[0]], "refused"),
                reported(client, BEFORE, "not this"),
                reported(client, BEFORE, "refused", digest="none"),
                reported(client, [CaseResult(case="a", status="FAILED", verdict="{}")], "refused"),
                ask.set_baseline("a b", run.id),
                ask.set_baseline("0" * 16, run.id),
                ask.compare_runs("one", "a b"),
                ask.delete_baseline("a b"),
                ask.set_baseline("one", "0" * 16),
                ask.get_run("none"),
                ask.delete_baseline("none"),
                ask.compare_runs("one", "none"),
                ask.set_baseline("four", run.id),
            ]
            for call in calls:
                with pytest.raises(OpserveError) as caught:
                    await call
                refusals.append(refusal(caught.value))
            assert len((await ask.list_runs("refused")).runs) == APIS.index(api) + 1
            for name in ("one", "two", "three"):
                await ask.delete_baseline(name)
    of_one = len(refusals) // len(APIS)
    assert refusals == refusals[:of_one] * len(APIS)
    codes = [one.code for one in refusals[:of_one]]
    assert codes == [100000] * 9 + [107017] + [100000] + [107017] * 4 + [207012]


async def test_a_run_that_is_too_large_for_a_stream_is_refused(kept: Addresses) -> None:
    large = [result(f"{'x' * 100}{n}") for n in range(999)]
    async with client_of(kept, "gRPC") as client:
        with pytest.raises(OpserveError, match="run has more than 65536 bytes"):
            await reported(client, large, "large")
    async with client_of(kept, "Connect") as client:
        assert (await reported(client, large, "large")).cases == 999


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([ReportRunRequest(results=[result(f"a{n}") for n in range(1001)])], "1001 in a message"),
        (
            [ReportRunRequest(target="a", results=BEFORE), ReportRunRequest(target="a")],
            "a second header",
        ),
        ([], "target does not accept ''"),
    ],
)
async def test_a_stream_that_is_none_is_refused(
    kept: Addresses, messages: list[ReportRunRequest], message: str
) -> None:
    async with grpc.aio.insecure_channel(kept.grpc) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match=message):
            await ConformanceServiceStub(channel).ReportRun(iter(messages))


async def test_a_run_at_work_is_no_baseline(kept: Addresses) -> None:
    async with client_of(kept, "gRPC") as client:
        begun = await client.conformance.run_suite("standard", target="long")
        with pytest.raises(OpserveError, match="run does not accept an active run"):
            await client.conformance.set_baseline("main", begun.id)
        await client.conformance.cancel_run(begun.id)
        assert (await client.conformance.set_baseline("main", begun.id)).run == begun.id
        await client.conformance.delete_baseline("main")
