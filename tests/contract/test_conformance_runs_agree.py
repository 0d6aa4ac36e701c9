"""By each API a suite is run, watched, cancelled and found again, also after a restart."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.service_with_keys import empty_store, new_store, store_url
from kernels.cases.suites import smoke
from opserve.v1.conformance_service_pb2 import Run
from opserve_client import AsyncClient, OpserveError
from opserve_client.private_service import Addresses, private_service
from opserve_kernels.algorithms.host import VARIANT

pytestmark = pytest.mark.system
DEVICES = {"devices": '["ascend910b", "reference"]'}
PROFILE = "ascend910b"
FOLDS = [
    case for case in smoke(0).cases if (case.operator, case.profile) == ("im2col_backward", PROFILE)
]
APIS = ["gRPC", "Connect"]
NO_LEVEL: Any = "none"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    url = empty_store(tmp_path_factory.mktemp("runs"))
    with private_service(store_url=url, **DEVICES) as addresses:
        yield addresses


@asynccontextmanager
async def client_of(service: Addresses, api: str) -> AsyncGenerator[AsyncClient]:
    async with AsyncClient(service.grpc if api == "gRPC" else service.rest) as made:
        yield made


async def at_its_end(client: AsyncClient, run: str) -> Run:
    while (found := await client.conformance.get_run(run, wait_s=20)).state == "RUNNING":
        pass
    return found


@pytest.mark.parametrize("api", APIS)
async def test_a_suite_is_run_to_its_end_and_kept(kept: Addresses, api: str) -> None:
    async with client_of(kept, api) as client:
        begun = await client.conformance.run_suite(
            "smoke",
            target=f"fold/{api}",
            operator="im2col_backward",
            profile=PROFILE,
            repeats=2,
            standards=["torch-assert-close"],
            gates=["webnn-ulp"],
            deterministic_level="batch",
            accuracy="fast",
            documented_rules="warn",
        )
        assert (begun.state, begun.stage) == ("RUNNING", "WAITING")
    other = "Connect" if api == "gRPC" else "gRPC"
    async with client_of(kept, other) as client:
        run = await at_its_end(client, begun.id)
        results = await client.conformance.list_results(begun.id)
        (listed,) = (await client.conformance.list_runs(f"fold/{api}")).runs
    assert (run.state, run.cases, run.judged) == ("ENDED", len(FOLDS), len(FOLDS)), run.reason
    assert [(count.status, count.cases) for count in run.counts] == [("PASSED", len(FOLDS))]
    assert run.digest == smoke(0).digest
    assert [(one.case, one.status) for one in results] == [(case.id, "PASSED") for case in FOLDS]
    assert listed == run
    assert (run.repeats, run.deterministic_level) == (2, "BATCH")
    assert (run.accuracy, run.documented_rules) == ("fast", "warn")
    assert run.kernel_variant == VARIANT.name
    assert list(run.standards) == ["torch-assert-close", "webnn-ulp"]
    assert list(run.gates) == ["webnn-ulp"]
    assert (run.stage, run.case) == ("", "")


async def test_a_run_on_the_profile_reference_has_no_kernel_variant(kept: Addresses) -> None:
    async with client_of(kept, "gRPC") as client:
        begun = await client.conformance.run_suite(
            "smoke", target="reference", operator="im2col_backward", profile="reference"
        )
        run = await at_its_end(client, begun.id)
    assert (run.state, run.kernel_variant) == ("ENDED", "")


@pytest.mark.parametrize("api", APIS)
async def test_a_cancelled_run_keeps_its_judged_cases(kept: Addresses, api: str) -> None:
    async with client_of(kept, api) as client:
        ask = client.conformance
        begun = await ask.run_suite("standard", target="long", profile=PROFILE)
        assert begun.deterministic_level == "OFF"
        assert (begun.accuracy, begun.documented_rules) == ("direct", "error")
        while (await ask.get_run(begun.id)).judged < 3:
            await ask.get_run(begun.id, wait_s=0.1)
        ended = await ask.cancel_run(begun.id)
        assert (ended.state, ended.HasField("ended_at")) == ("CANCELLED", True)
        assert 3 <= ended.judged < ended.cases
        assert len(await ask.list_results(begun.id)) == ended.judged
        assert (await ask.cancel_run(begun.id)) == ended
        assert not await ask.list_results(begun.id, status="FAILED")


@pytest.mark.parametrize("api", APIS)
async def test_the_bounds_of_a_run_are_checked(kept: Addresses, api: str) -> None:
    async with client_of(kept, api) as client:
        ask = client.conformance
        for code, call in (
            (107017, ask.run_suite("none", target="mine")),
            (100000, ask.run_suite("smoke", target="a b")),
            (100000, ask.run_suite("smoke", target="mine", profile="none")),
            (100000, ask.run_suite("smoke", target="mine", repeats=11)),
            (100000, ask.run_suite("smoke", target="mine", repeats=-1)),
            (100000, ask.run_suite("smoke", target="mine", standards=["none"])),
            (100000, ask.run_suite("smoke", target="mine", gates=["torch-assert-close", ""])),
            (100000, ask.run_suite("smoke", target="mine", deterministic_level=NO_LEVEL)),
            (107017, ask.get_run("0" * 16)),
            (107017, ask.cancel_run("none")),
            (100000, ask.list_runs(limit=201)),
        ):
            with pytest.raises(OpserveError) as caught:
                await call
            assert caught.value.code == code


@pytest.mark.parametrize("api", APIS)
async def test_a_profile_without_a_device_is_not_implemented(kept: Addresses, api: str) -> None:
    async with client_of(kept, api) as client:
        begun = await client.conformance.run_suite(
            "smoke", target="other", operator="deconv_grad_filter"
        )
        run = await at_its_end(client, begun.id)
        assert (run.state, [count.status for count in run.counts]) == ("ENDED", ["UNIMPLEMENTED"])
        first = (await client.conformance.list_results(begun.id))[0]
        assert "profile" in first.reason


@pytest.mark.slow
async def test_history_outlives_the_service(tmp_path: Path) -> None:
    url = store_url(tmp_path)
    await new_store(url, ())
    with private_service(store_url=url, **DEVICES) as service:
        async with client_of(service, "gRPC") as client:
            ask = client.conformance
            begun = await ask.run_suite("smoke", target="fold", operator="im2col_backward")
            ended = await at_its_end(client, begun.id)
            cut = await ask.run_suite("standard", target="long", profile=PROFILE)
            while not (await ask.get_run(cut.id)).judged:
                await ask.get_run(cut.id, wait_s=0.1)
    with private_service(store_url=url, devices='["ascend910b"]') as service:
        async with client_of(service, "Connect") as client:
            found = (await client.conformance.list_runs()).runs
            assert [(run.id, run.state) for run in found] == [
                (cut.id, "INTERRUPTED"),
                (begun.id, "ENDED"),
            ]
            assert found[1] == ended
            assert len(await client.conformance.list_results(cut.id)) == found[0].judged > 0


async def test_a_service_without_a_store_runs_no_suite(service: Addresses) -> None:
    async with client_of(service, "Connect") as client:
        with pytest.raises(OpserveError) as caught:
            await client.conformance.run_suite("smoke", target="mine")
        assert caught.value.code == 200001
