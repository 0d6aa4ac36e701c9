"""Over gRPC and Connect a client gets the same cases, arrays and verdicts."""

import json
from collections.abc import AsyncGenerator

import numpy as np
import pytest

from contract.apis import Refusal, client_over, refusal
from kernels.cases.suites import smoke
from opserve_client import AsyncClient, OpserveError
from opserve_client.private_service import Addresses
from opserve_kernels.cases.arrays import arrays_of, plain_inputs
from opserve_kernels.cases.reading import case_of, parse_object
from opserve_kernels.verdict.json_form import from_json

pytestmark = pytest.mark.system
SUITE = smoke(3)
RAN = next(case for case in SUITE.cases if case.operator == "im2col_backward")
REFUSED = next(case for case in SUITE.cases if case.is_refused)


@pytest.fixture(params=["gRPC", "Connect", "REST"])
async def client(service: Addresses, request: pytest.FixtureRequest) -> AsyncGenerator[AsyncClient]:
    async with client_over(service, request.param) as made:
        yield made


async def test_cases_are_those_that_the_suite_makes(client: AsyncClient) -> None:
    assert [one.name for one in await client.conformance.list_suites()] == [
        *("smoke", "standard", "exhaustive")
    ]
    found = await client.conformance.list_cases("smoke", seed=3)
    assert [one.id for one in found] == [case.id for case in SUITE.cases]
    line = await client.conformance.get_case(RAN.id, suite="smoke", seed=3)
    assert case_of(parse_object(line, "line"), "line") == RAN
    folds = await client.conformance.list_cases("smoke", seed=3, match=RAN.id)
    assert [(one.id, one.profile, one.source) for one in folds] == [
        (RAN.id, RAN.profile, RAN.source)
    ]


async def test_pages_follow_each_other(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opserve_client._async.conformance._PAGE", 7)
    wanted = [case.id for case in SUITE.cases if case.operator == "im2col_backward"]
    assert len(wanted) > 14
    found = await client.conformance.list_cases("smoke", seed=3, operator="im2col_backward")
    assert [one.id for one in found] == wanted


async def test_inputs_are_reproducible(client: AsyncClient) -> None:
    found = await client.conformance.get_inputs(RAN.id, suite="smoke", seed=3)
    drawn = plain_inputs(RAN, arrays_of(RAN, 3))
    assert found.keys() == drawn.keys()
    for name, array in drawn.items():
        np.testing.assert_array_equal(found[name], array)


async def test_a_wrong_element_is_reported_and_right_ones_pass(client: AsyncClient) -> None:
    expected = await client.conformance.get_golden(RAN.id, suite="smoke", seed=3)
    assert np.all(expected["magnitudes.out"] >= np.abs(expected["values.out"]))
    right = expected["values.out"].astype(np.float32)
    passed = await client.conformance.verify(RAN.id, {"out": right}, suite="smoke", seed=3)
    assert (passed.status, passed.case) == ("PASSED", RAN.id)
    wrong = right.copy()
    wrong.flat[2] += 1
    failed = await client.conformance.verify(RAN.id, {"out": wrong}, suite="smoke", seed=3)
    assert failed.status == "FAILED"
    place = tuple(int(i) for i in np.unravel_index(2, wrong.shape))
    assert f"1 of {wrong.size} elements are wrong, the first at {place}" in failed.reason
    (output,) = from_json(json.loads(failed.verdict)).outputs
    worst = output.greatest[0]
    assert (worst.index, worst.got, worst.expected) == (place, wrong[place], right[place])
    missing = await client.conformance.verify(RAN.id, {}, suite="smoke", seed=3)
    assert (missing.status, "nothing was given" in missing.reason) == ("FAILED", True)


async def test_bits_of_bf16_are_judged_as_bf16(client: AsyncClient) -> None:
    wide = next(
        case
        for case in SUITE.cases
        if not case.is_refused and {t.dtype.value for t in case.outputs.values()} == {"BF16"}
    )
    expected = await client.conformance.get_golden(wide.id, suite="smoke", seed=3)
    outputs = {
        name: (expected[f"values.{name}"].astype(np.float32).view(np.uint32) >> 16).astype(
            np.uint16
        )
        for name in wide.written
    }
    exact = [expected[f"values.{name}"] for name in wide.written]
    assert max(float(np.abs(values).max(initial=0)) for values in exact) <= 256, "no rounding"
    passed = await client.conformance.verify(wide.id, outputs, suite="smoke", seed=3)
    assert passed.status == "PASSED", passed.reason


async def test_a_refusal_is_judged_by_its_code(client: AsyncClient) -> None:
    async def judged(code: str) -> str:
        found = await client.conformance.verify(REFUSED.id, {}, suite="smoke", seed=3, code=code)
        return found.status

    assert REFUSED.expect == "ACLNN_ERR_PARAM_NULLPTR"
    assert [await judged(code) for code in (REFUSED.expect, "161001", "161002", "")] == [
        *("PASSED", "PASSED", "FAILED", "FAILED")
    ]


async def test_both_apis_refuse_alike(service: Addresses) -> None:
    refusals = list[Refusal]()
    for address in (service.grpc, service.rest):
        async with AsyncClient(address) as client:
            ask = client.conformance
            calls = [
                ask.get_case("none", suite="smoke"),
                ask.get_case(RAN.id, suite="none"),
                ask.get_inputs(REFUSED.id, suite="smoke", seed=3),
                ask.get_golden("none", suite="smoke"),
                ask.verify("none", {"out": np.ones(3)}, suite="smoke"),
                ask.verify(RAN.id, {"out": np.ones(3)}, suite="smoke", seed=-1),
                ask.list_cases("smoke", operator="none"),
                ask.verify(RAN.id, {"out": np.ones(3)}, suite="smoke", gates=["none"]),
                ask.verify(RAN.id, {"out": np.ones(2**17)}, suite="smoke", standards=["none"]),
            ]
            for call in calls:
                with pytest.raises(OpserveError) as caught:
                    await call
                refusals.append(refusal(caught.value))
    half = len(refusals) // 2
    assert refusals[:half] == refusals[half:]
    assert [one.code for one in refusals[:half]] == [107017] * 5 + [100000] * 4


async def test_blocking_clients_verify_too(service: Addresses) -> None:
    from opserve_client import Client  # noqa: PLC0415

    with Client(service.rest) as client:
        expected = client.conformance.get_golden(RAN.id, suite="smoke", seed=3)
        right = expected["values.out"].astype(np.float32)
        assert client.conformance.verify(RAN.id, {"out": right}, suite="smoke", seed=3).reason
