"""A tenant's runs over both APIs: for another tenant there are none."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from opserve.v1.conformance_service_pb2 import CaseResult as CaseResultMessage
from opserve.v1.conformance_service_pb2 import Run as RunMessage
from opserve_client import AsyncClient
from opserve_kernels.conformance.record import CaseResult
from opserve_server.core.runs import Run
from opserve_server.core.tenants import Resource
from server.conformance_service import HISTORY_LIMITS
from server.deployment import Deployment, open_deployment, refusal
from server.store.migrated import migrated_file

RUN = Run(
    id="0123456789abcdef",
    tenant="lab",
    target="mine",
    suite="smoke",
    seed=0,
    cases=9,
    counts={"PASSED": 1},
    created_at=5.0,
    seen_at=5.0,
)
RESULT = CaseResult(case="one", status="PASSED", reason="", worst=0.5, seconds=0.1, verdict="")


@pytest.fixture
async def deployment(tmp_path: Path) -> AsyncGenerator[Deployment]:
    async with open_deployment(migrated_file(tmp_path)) as deployment:
        yield deployment


async def key_of(deployment: Deployment, tenant: str) -> str:
    async with deployment.client("grpc") as admin:
        await admin.admin.create_tenant(tenant)
        return (await admin.admin.create_key(tenant, "ci")).text


@pytest.mark.parametrize("api", ["grpc", "rest"])
async def test_a_run_is_visible_to_its_tenant_alone(deployment: Deployment, api: str) -> None:
    await deployment.store.runs.begin(RUN, kept=5)
    await deployment.store.runs.add(RUN, [(0, RESULT)])
    async with deployment.client(api, await key_of(deployment, "lab")) as lab:
        assert (await lab.conformance.get_run(RUN.id)).target == "mine"
        assert [run.id for run in (await lab.conformance.list_runs()).runs] == [RUN.id]
        (result,) = await lab.conformance.list_results(RUN.id)
        assert (result.case, result.worst) == ("one", 0.5)
    async with deployment.client(api, await key_of(deployment, "mill")) as mill:
        ask, none = mill.conformance, "f" * 16
        assert not (await ask.list_runs()).runs
        for foreign, missing in (
            (ask.get_run(RUN.id), ask.get_run(none)),
            (ask.cancel_run(RUN.id), ask.cancel_run(none)),
            (ask.list_results(RUN.id), ask.list_results(none)),
            (ask.list_runs(cursor=RUN.id), ask.list_runs(cursor=none)),
        ):
            theirs, nobodys = await refusal(foreign), await refusal(missing)
            assert theirs.message == nobodys.message.replace(none, RUN.id)
            assert theirs.code == 107017


@pytest.mark.parametrize("api", ["grpc", "rest"])
async def test_a_run_without_an_executor_is_interrupted(deployment: Deployment, api: str) -> None:
    await deployment.store.runs.begin(RUN, kept=5)
    async with deployment.client(api, await key_of(deployment, "lab")) as lab:
        assert (await lab.conformance.get_run(RUN.id)).state == "INTERRUPTED"


async def reported(client: AsyncClient, results: list[CaseResultMessage]) -> RunMessage:
    digest = f"sha256:{'0' * 64}"
    return await client.conformance.report_run(
        results, target="mine", suite="my layers", digest=digest
    )


@pytest.mark.parametrize("api", ["grpc", "rest"])
async def test_names_and_runs_of_another_tenant_are_as_none(
    deployment: Deployment, api: str
) -> None:
    results = [CaseResultMessage(case="one", status="PASSED")]
    lab_key = await key_of(deployment, "lab")
    async with deployment.client(api, lab_key) as lab:
        theirs = await reported(lab, results)
        await lab.conformance.set_baseline("main", theirs.id)
    async with deployment.client(api, await key_of(deployment, "mill")) as mill:
        ask, none = mill.conformance, "f" * 16
        own = await reported(mill, results)
        assert not await ask.list_baselines()
        for foreign, missing in (
            (ask.get_run("main"), ask.get_run("none")),
            (ask.list_results("main"), ask.list_results("none")),
            (ask.compare_runs("main", own.id), ask.compare_runs("none", own.id)),
            (ask.compare_runs(own.id, theirs.id), ask.compare_runs(own.id, none)),
            (ask.set_baseline("main", theirs.id), ask.set_baseline("main", none)),
            (ask.delete_baseline("main"), ask.delete_baseline("none")),
        ):
            their, nobodys = await refusal(foreign), await refusal(missing)
            message = nobodys.message.replace(none, theirs.id).replace("none", "main")
            assert (their.message, their.code) == (message, 107017)
        assert (await ask.set_baseline("main", own.id)).run == own.id
    async with deployment.client(api, lab_key) as lab:
        assert (await lab.conformance.get_run("main")).id == theirs.id


@pytest.mark.parametrize("api", ["grpc", "rest"])
async def test_the_oldest_runs_are_removed_unless_they_have_a_name(
    deployment: Deployment, api: str
) -> None:
    results = [CaseResultMessage(case="one", status="PASSED")]
    async with deployment.client(api, await key_of(deployment, "lab")) as lab:
        ask = lab.conformance
        runs = list[str]()
        for number in range(HISTORY_LIMITS.runs + 2):
            runs.append((await reported(lab, results)).id)
            if not number:
                await ask.set_baseline("main", runs[0])
        assert [run.id for run in (await ask.list_runs()).runs] == [*runs[:1:-1], runs[0]]
        assert (await ask.compare_runs("main", runs[-1])).same_suite
        assert (await refusal(ask.get_run(runs[1]))).code == 107017


@pytest.mark.parametrize("api", ["grpc", "rest"])
async def test_a_report_that_is_refused_holds_no_bytes(deployment: Deployment, api: str) -> None:
    async with deployment.client(api, await key_of(deployment, "lab")) as lab:
        wrong = [CaseResultMessage(case="a b", status="PASSED")]
        assert (await refusal(reported(lab, wrong))).code == 100000
        assert not (await lab.conformance.list_runs()).runs
    counter = deployment.service.accounts.of("lab").counters[Resource.BYTES_IN_FLIGHT]
    assert counter.use == 0
