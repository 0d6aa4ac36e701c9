"""Large outputs are asked for first; what the service has dropped meanwhile is sent after all."""

from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message

from opserve.digests import digest_of
from opserve.v1.conformance_service_pb2 import (
    SubmitOutputsRequest,
    SubmitOutputsResponse,
    VerifyRequest,
    VerifyResponse,
)
from opserve_client import AclrtError, Client
from opserve_client.array_files import unpacked
from opserve_client.errors import invalid_handle
from opserve_client.transports import MemoryTransport
from opserve_client.wire.methods import Method

OUTPUTS = {"grad_weight": np.ones(2**16, np.float32), "grad_bias": np.ones(3, np.float32)}
DIGESTS = {name: digest_of(array) for name, array in OUTPUTS.items()}
VERDICT = VerifyResponse(case="one", status="PASSED")


class Service:
    """Has the bias and no verdict, and answers digests alone with an error if there is one."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.asked: list[Message] = []

    def __call__(self, _: Method[Any, Any], request: Message) -> Message:
        self.asked.append(request)
        if isinstance(request, SubmitOutputsRequest):
            return SubmitOutputsResponse(missing=["grad_weight"])
        assert isinstance(request, VerifyRequest)
        if request.digests and self._error is not None:
            raise self._error
        return VERDICT

    @property
    def sent(self) -> list[tuple[list[str], dict[str, str]]]:
        """Names of the arrays of each Verify, and its digests."""
        return [
            (sorted(unpacked(one.data)), dict(one.digests))
            for one in self.asked
            if isinstance(one, VerifyRequest)
        ]


def verdict_of(service: Service, code: str = "") -> VerifyResponse:
    with Client(transport=MemoryTransport(service)) as client:
        return client.conformance.verify("one", OUTPUTS, code=code)


def test_missing_arrays_travel_and_digests_of_the_rest() -> None:
    service = Service()
    assert verdict_of(service) == VERDICT
    first = service.asked[0]
    assert first == SubmitOutputsRequest(suite="standard", case="one", digests=DIGESTS)
    assert service.sent == [(["grad_weight"], {"grad_bias": DIGESTS["grad_bias"]})]


def test_arrays_that_the_service_dropped_meanwhile_are_sent() -> None:
    service = Service(invalid_handle("digests", "that of grad_bias", "digests of what is kept"))
    assert verdict_of(service) == VERDICT
    assert service.sent[1:] == [(["grad_bias", "grad_weight"], {})]


def test_another_refusal_is_raised() -> None:
    service = Service(AclrtError("planted", code=207012))
    with pytest.raises(AclrtError, match="planted"):
        verdict_of(service)
    assert len(service.sent) == 1


def test_a_code_is_verified_in_one_request() -> None:
    service = Service()
    verdict_of(service, code="161002")
    assert [type(one) for one in service.asked] == [VerifyRequest]


def test_small_outputs_are_sent_without_a_question() -> None:
    service = Service()
    with Client(transport=MemoryTransport(service)) as client:
        client.conformance.verify("one", {"grad_bias": OUTPUTS["grad_bias"]})
    assert service.sent == [(["grad_bias"], {})]
