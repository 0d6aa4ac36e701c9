"""All APIs run cases that the caller defines on devices as they run a suite."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.service_with_keys import empty_store
from contract.apis import Refusal, refusal
from opserve.v1.conformance_service_pb2 import Run
from opserve_client import AsyncClient, OpserveError
from opserve_client.private_service import Addresses, private_service
from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import canonical
from opserve_kernels.cases.suite import Suite
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall
from opserve_kernels.verdict.json_form import from_json

pytestmark = pytest.mark.system
DEVICES = {"devices": '["ascend910b", "reference"]'}
FOLD = FoldCall(out=(3, 13, 11), kernel=(2, 5))
OWN = FOLD.case(Setting(source="mine"))
WRONG = replace(OWN, arguments={**OWN.arguments, "stride": (0, 1)})
CASES = (
    OWN,
    replace(WRONG, expect="ACLNN_ERR_PARAM_INVALID"),
    FOLD.case(Setting(profile="ascend910")),
)
LINES = [canonical(case.to_json()) for case in CASES]
CONVOLUTION = ConvolutionCall(input=(1, 2, 5, 5), weight=(3, 2, 3, 3)).case()
PAGE_BROKEN = replace(CONVOLUTION, arguments={**CONVOLUTION.arguments, "bias_sizes": (1,)})
PAGE_REFUSED = replace(PAGE_BROKEN, expect="ACLNN_ERR_PARAM_INVALID")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    url = empty_store(tmp_path_factory.mktemp("own"))
    with private_service(store_url=url, **DEVICES) as addresses:
        yield addresses


async def at_its_end(client: AsyncClient, run: Run) -> Run:
    while run.state == "RUNNING":
        run = await client.conformance.get_run(run.id, wait_s=20)
    return run


@pytest.mark.parametrize("api", ["grpc", "rest"])
async def test_own_cases_are_run_and_stored_under_their_given_name(
    kept: Addresses, api: str
) -> None:
    async with AsyncClient(getattr(kept, api)) as client:
        ask = client.conformance
        begun = await ask.run_suite("mine", target=api, seed=4, definitions=[*LINES, LINES[0]])
        run = await at_its_end(client, begun)
        results = await ask.list_results(run.id)
        few = await ask.run_suite("mine", target=api, match="mine", definitions=LINES)
        assert (await at_its_end(client, few)).cases == 2
    assert (run.state, run.suite, run.seed, run.cases) == ("ENDED", "mine", 4, len(CASES))
    assert run.digest == Suite(name="mine", seed=4, cases=CASES).digest
    assert [(one.case, one.status) for one in results] == [
        (case.id, status)
        for case, status in zip(CASES, ("PASSED", "PASSED", "UNIMPLEMENTED"), strict=True)
    ]


@pytest.mark.parametrize("api", ["grpc", "rest"])
async def test_own_cases_follow_the_documented_rules_of_their_run_and_keep_its_warnings(
    kept: Addresses, api: str
) -> None:
    line, refused = (canonical(case.to_json()) for case in (PAGE_BROKEN, PAGE_REFUSED))
    async with AsyncClient(getattr(kept, api)) as client:
        ask = client.conformance
        with pytest.raises(OpserveError, match="a call that is refused") as caught:
            await ask.run_suite("mine", target=api, definitions=[line])
        assert caught.value.parameter == "definitions[0]: definition"
        begun = await ask.run_suite("mine", target=api, definitions=[refused])
        assert (await at_its_end(client, begun)).state == "ENDED"
        (strict,) = await ask.list_results(begun.id)
        begun = await ask.run_suite(
            "mine", target=api, definitions=[line, refused, LINES[0]], documented_rules="warn"
        )
        assert (await at_its_end(client, begun)).state == "ENDED"
        *warned, right = await ask.list_results(begun.id)
    assert (strict.status, strict.verdict) == (right.status, right.verdict) == ("PASSED", "")
    assert [one.status for one in warned] == ["PASSED", "PASSED"]
    for one in warned:
        form = json.loads(one.verdict)
        assert from_json(form).case == one.case
        (warning,) = form["warnings"]
        assert (warning["code"], warning["parameter"]) == (161002, "bias_sizes")
        assert warning["sentence"]


async def test_both_apis_refuse_alike(kept: Addresses) -> None:
    broken = json.dumps(WRONG.to_json())
    refusals = list[Refusal]()
    for address in (kept.grpc, kept.rest):
        async with AsyncClient(address) as client:
            for suite, definitions in (
                ("smoke", LINES),
                ("my layers", LINES),
                ("mine", [LINES[0], broken]),
                ("mine", ["{}"] * 1001),
            ):
                with pytest.raises(OpserveError) as caught:
                    await client.conformance.run_suite(suite, target="x", definitions=definitions)
                refusals.append(refusal(caught.value))
    half = len(refusals) // 2
    assert refusals[:half] == refusals[half:]
    assert [(one.code, one.parameter) for one in refusals[:half]] == [
        (100000, "suite"),
        (100000, "suite"),
        (100000, "definitions[1]: definition"),
        (100000, "definitions"),
    ]
