"""A tenant's runs over both faces: for another tenant there are none."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from opserve_server.core.runs import CaseResult, Run
from server.farm import FACES, Farm, open_farm, refusal

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
async def farm(tmp_path: Path) -> AsyncGenerator[Farm]:
    async with open_farm(f"sqlite:///{tmp_path}/farm.db") as farm:
        yield farm


async def key_of(farm: Farm, tenant: str) -> str:
    async with farm.client("grpc") as admin:
        await admin.admin.create_tenant(tenant)
        return (await admin.admin.create_key(tenant, "ci")).text


@pytest.mark.parametrize("face", FACES)
async def test_a_run_is_told_to_its_tenant_and_is_not_there_for_others(
    farm: Farm, face: str
) -> None:
    await farm.store.runs.begin(RUN, kept=5)
    await farm.store.runs.add(RUN, [(0, RESULT)])
    async with farm.client(face, await key_of(farm, "lab")) as lab:
        assert (await lab.conformance.get_run(RUN.id)).target == "mine"
        assert [run.id for run in (await lab.conformance.list_runs()).runs] == [RUN.id]
        (result,) = await lab.conformance.list_results(RUN.id)
        assert (result.case, result.worst) == ("one", 0.5)
    async with farm.client(face, await key_of(farm, "mill")) as mill:
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


@pytest.mark.parametrize("face", FACES)
async def test_a_run_that_nobody_carries_out_any_more_is_interrupted(farm: Farm, face: str) -> None:
    await farm.store.runs.begin(RUN, kept=5)
    async with farm.client(face, await key_of(farm, "lab")) as lab:
        assert (await lab.conformance.get_run(RUN.id)).state == "INTERRUPTED"
