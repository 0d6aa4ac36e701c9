"""All APIs judge a case that the caller defines as they judge one of a suite."""

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from contract.apis import Refusal, client_over, refusal
from opserve.v1.conformance_service_pb2 import GetInputsRequest
from opserve_client import AsyncClient, OpserveError
from opserve_client.private_service import Addresses
from opserve_client.wire.conformance_methods import GET_INPUTS
from opserve_kernels.cases.arrays import arrays_of, plain_inputs
from opserve_kernels.cases.case import Case, canonical
from opserve_kernels.cases.reading import case_of, parse_object
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall

pytestmark = pytest.mark.system
SEED = 5
OWN = FoldCall(out=(3, 13, 11), kernel=(2, 5), stride=(3, 1)).case()
WRONG = replace(OWN, arguments={**OWN.arguments, "stride": (0, 1)})
LARGE = ConvolutionCall(input=(1, 1, 3000, 3000), weight=(1, 1, 1, 1)).case()
PROBLEM = 'conv --dir=BWD_W mb3ic6ih9oc4kh3ph1_n"mine"'
COMMAND = "MIOpenDriver conv -n 2 -c 4 -H 9 -W 7 -k 6 -y 3 -x 3 -p 1 -q 1 -F 2"


def definition_of(case: Case, **changes: Any) -> str:
    """The line of a case, with other members; a person gives no id."""
    line = case.to_json() | changes
    del line["id"]
    return json.dumps(line)


@pytest.fixture(params=["gRPC", "Connect", "REST"])
async def client(service: Addresses, request: pytest.FixtureRequest) -> AsyncGenerator[AsyncClient]:
    async with client_over(service, request.param) as made:
        yield made


async def test_outputs_of_an_own_case_are_judged(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, text = client.conformance, definition_of(OWN)
    expected = await ask.get_golden(text, seed=SEED)
    right = expected["values.out"].astype(np.float32)
    passed = await ask.verify(text, {"out": right}, seed=SEED)
    assert (passed.status, passed.case) == ("PASSED", OWN.id)
    monkeypatch.setattr("opserve_client._async.conformance._DIGESTS_PAY_BYTES", 0)
    assert await ask.verify(text, {"out": right}, seed=SEED) == passed, "known by its digest"
    right.flat[4] += 1
    failed = await ask.verify(text, {"out": right}, seed=SEED)
    assert "out: 1 of 429 elements are wrong" in failed.reason
    other = await ask.verify(text, {"out": right}, seed=SEED + 1)
    assert other.reason != failed.reason, "another seed draws other inputs"


async def test_inputs_of_an_own_case_are_reproducible(client: AsyncClient) -> None:
    found = await client.conformance.get_inputs(definition_of(OWN), seed=SEED)
    drawn = plain_inputs(OWN, arrays_of(OWN, SEED))
    np.testing.assert_array_equal(found["grad_output"], drawn["grad_output"])


async def test_a_refusal_that_a_definition_expects_is_judged_by_its_code(
    client: AsyncClient,
) -> None:
    text = definition_of(WRONG, expect="ACLNN_ERR_PARAM_INVALID")
    statuses = [
        (await client.conformance.verify(text, {}, code=code)).status
        for code in ("161002", "161001", "")
    ]
    assert statuses == ["PASSED", "FAILED", "FAILED"]


async def test_a_layer_is_converted_from_a_problem_string_and_judged(client: AsyncClient) -> None:
    ask = client.conformance
    read = await ask.read_cases("benchdnn", f"{PROBLEM}\nic4\n", profile="reference", fill="tiny")
    (line,) = read.definitions
    case = case_of(parse_object(line, "line"), "line")
    assert (case.profile, case.kind, case.written) == ("reference", "tiny", ("grad_weight",))
    assert [(one.line, one.text, one.reason) for one in read.refused] == [
        (2, "ic4", "a problem needs ic and oc, at least 1")
    ]
    (line,) = (await ask.read_cases("benchdnn", PROBLEM)).definitions
    assert case_of(parse_object(line, "line"), "line").kind == "integer"
    expected = await ask.get_golden(line)
    exact = expected["values.grad_weight"].astype(np.float32)
    verified = await ask.verify(line, {"grad_weight": exact})
    assert (verified.status, verified.case) == ("PASSED", json.loads(line)["id"])


async def test_each_form_of_lines_is_read(client: AsyncClient) -> None:
    ask = client.conformance
    commands = await ask.read_cases("miopen", COMMAND)
    assert [len(commands.definitions), len(commands.refused)] == [1, 0]
    lines = [*commands.definitions, definition_of(WRONG), "", definition_of(OWN), "{"]
    again = await ask.read_cases("json", "\n".join(['{"suite":"mine"}', *lines]))
    assert [json.loads(line)["id"] for line in again.definitions] == [
        json.loads(commands.definitions[0])["id"],
        OWN.id,
    ]
    assert [one.line for one in again.refused] == [3, 6]
    assert "a call that is refused (stride does not accept" in again.refused[0].reason
    assert '"expect": "ACLNN_ERR_PARAM_INVALID"' in again.refused[0].reason


async def test_both_apis_refuse_alike(service: Addresses) -> None:
    refusals = list[Refusal]()
    for address in (service.grpc, service.rest):
        async with AsyncClient(address) as client:
            ask, connection = client.conformance, client.conformance._connection
            nothing = GetInputsRequest()
            calls = [
                ask.verify(definition_of(OWN, profile="none"), {}),
                ask.verify(definition_of(OWN, arguments={"stride": "two"}), {}),
                ask.verify(definition_of(WRONG), {}),
                ask.verify("{", {}),
                ask.verify(definition_of(OWN), {}, seed=-1),
                ask.get_golden(f"{{{' ' * 65536}}}"),
                ask.read_cases("onnx", ""),
                ask.read_cases("miopen", "", profile="none"),
                ask.read_cases("miopen", "", fill="none"),
                ask.read_cases("json", "\n" * 1001),
                connection.archive(GET_INPUTS, nothing),
                ask.verify(canonical(LARGE.to_json()), {}),
                ask.get_inputs(definition_of(WRONG, expect="ACLNN_ERR_PARAM_INVALID")),
            ]
            for call in calls:
                with pytest.raises(OpserveError) as caught:
                    await call
                refusals.append(refusal(caught.value))
    half = len(refusals) // 2
    assert refusals[:half] == refusals[half:]
    assert [one.code for one in refusals[:half]] == [100000] * 11 + [207012, 107017]
    places = ["definition: profile", "arguments.stride", "definition", "definition", "seed"]
    assert [one.parameter for one in refusals[:5]] == places


async def test_a_definition_and_a_name_exclude_each_other(service: Addresses) -> None:
    async with AsyncClient(service.grpc) as client:
        asked = GetInputsRequest(definition=definition_of(OWN), suite="smoke")
        with pytest.raises(OpserveError, match="it accepts one, or a suite and a case"):
            await client.conformance._connection.archive(GET_INPUTS, asked)
