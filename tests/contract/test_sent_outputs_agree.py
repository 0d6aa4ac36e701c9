"""Over gRPC and Connect only those outputs travel that the service has not had before."""

import numpy as np
import pytest

from contract.apis import Refusal, refusal
from kernels.cases.suites import smoke
from opserve.digests import digest_of
from opserve.v1.conformance_service_pb2 import (
    SubmitOutputsRequest,
    SubmitOutputsResponse,
    VerifyRequest,
    VerifyResponse,
)
from opserve_client import AsyncClient, OpserveError
from opserve_client._async.connection import AsyncConnection
from opserve_client.array_files import packed, unpacked
from opserve_client.private_service import Addresses
from opserve_client.wire.conformance_methods import SUBMIT_OUTPUTS
from opserve_kernels.cases.case import Case
from opserve_kernels.tensor import DataType

pytestmark = pytest.mark.system
SEED = 3
CASES = [
    case
    for case in smoke(SEED).cases
    if case.operator == "convolution_backward"
    and not case.is_refused
    and len(case.written) > 1
    and all(case.tensors[name].dtype == DataType.FLOAT for name in case.written)
][:2]
APIS = ("grpc", "rest")


@pytest.fixture
def travelled(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, int]]:
    """Bytes of each output that is sent to be judged, call by call; small ones have digests too."""
    calls: list[dict[str, int]] = []
    carry = AsyncConnection.verify

    async def counted(
        self: AsyncConnection, request: VerifyRequest, data: memoryview
    ) -> VerifyResponse:
        calls.append({name: array.nbytes for name, array in unpacked(bytes(data)).items()})
        return await carry(self, request, data)

    monkeypatch.setattr(AsyncConnection, "verify", counted)
    monkeypatch.setattr("opserve_client._async.conformance._DIGESTS_PAY_BYTES", 0)
    return calls


@pytest.mark.parametrize(("api", "case"), list(zip(APIS, CASES, strict=True)), ids=APIS)
async def test_only_the_output_that_changed_travels_again(
    service: Addresses, travelled: list[dict[str, int]], api: str, case: Case
) -> None:
    async with AsyncClient(getattr(service, api)) as client:
        ask = client.conformance
        expected = await ask.get_golden(case.id, suite="smoke", seed=SEED)
        outputs = {name: expected[f"values.{name}"].astype(np.float32) for name in case.written}
        first = await ask.verify(case.id, outputs, suite="smoke", seed=SEED)
        assert first.status == "PASSED", first.reason
        assert travelled == [{name: array.nbytes for name, array in outputs.items()}]
        assert await ask.verify(case.id, outputs, suite="smoke", seed=SEED) == first
        assert len(travelled) == 1
        name = case.written[-1]
        outputs[name] = outputs[name] + 1
        failed = await ask.verify(case.id, outputs, suite="smoke", seed=SEED)
        assert travelled[1:] == [{name: outputs[name].nbytes}]
        assert (failed.status, failed.reason.partition(":")[0]) == ("FAILED", name)


async def test_both_apis_answer_and_refuse_alike(service: Addresses) -> None:
    case = CASES[0]
    ones = np.ones(case.tensors[case.written[0]].shape, np.float32)
    answers = list[SubmitOutputsResponse]()
    refused = list[Refusal]()
    for address in (service.grpc, service.rest):
        async with AsyncClient(address) as client:
            await client.conformance.verify(
                case.id, {case.written[0]: ones}, suite="smoke", seed=SEED
            )
            connection = client.conformance._connection
            known, none = {case.written[0]: digest_of(ones)}, {case.written[1]: "0" * 64}
            for digests in (known, known | none, {}):
                answers.append(await connection.call(SUBMIT_OUTPUTS, submission(digests)))
            unsent = VerifyRequest(suite="smoke", case=case.id, seed=SEED, digests=none)
            for call in (
                connection.verify(unsent, packed({})),
                connection.call(SUBMIT_OUTPUTS, submission({"out": "none"})),
                connection.call(SUBMIT_OUTPUTS, SubmitOutputsRequest(suite="smoke", case="none")),
            ):
                with pytest.raises(OpserveError) as caught:
                    await call
                refused.append(refusal(caught.value))
    assert answers[:3] == answers[3:]
    assert [(one.HasField("verified"), list(one.missing)) for one in answers[:3]] == [
        (True, []),
        (False, [case.written[1]]),
        (True, []),
    ]
    assert refused[:3] == refused[3:]
    assert [one.code for one in refused[:3]] == [107017, 100000, 107017]


def submission(digests: dict[str, str]) -> SubmitOutputsRequest:
    return SubmitOutputsRequest(suite="smoke", case=CASES[0].id, seed=SEED, digests=digests)
