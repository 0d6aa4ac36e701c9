"""Run, with a session and without one, over gRPC and Connect."""

import numpy as np
import pytest
from google.protobuf.json_format import ParseDict

from opserve.v1.operator_service_pb2 import RunRequest, RunResponse
from opserve_client import Client, OpserveError
from opserve_client.private_service import Addresses
from opserve_client.wire.methods import RUN

pytestmark = pytest.mark.system
ONES = np.ones(16, np.float32).tobytes()
COUNTS = np.array([1, 2, 1, 2, 4, 2, 1, 2, 1], np.float32).tobytes()
CALL = {
    "im2col_backward": {
        "grad_output": {"shape": [4, 4], "dtype": "DATA_TYPE_FLOAT"},
        "input_size": {"values": [3, 3]},
        "kernel_size": {"values": [2, 2]},
        "dilation": {"values": [1, 1]},
        "padding": {"values": [0, 0]},
        "stride": {"values": [1, 1]},
        "out": {"shape": [1, 3, 3], "dtype": "DATA_TYPE_FLOAT"},
    }
}


@pytest.fixture(params=["grpc", "rest"])
def client(service: Addresses, request: pytest.FixtureRequest) -> Client:
    return Client(getattr(service, request.param))


def run(client: Client, **fields: object) -> RunResponse:
    request = ParseDict({"plan": CALL, **fields}, RunRequest())
    if "inputs" not in fields:
        request.inputs.add(index=0, data=ONES)
    with client:
        return client._connection.call(RUN, request)


def test_a_whole_call_needs_no_session(client: Client) -> None:
    (output,) = run(client, open={"profile": "ascend910b"}).outputs
    assert (output.index, output.data) == (1, COUNTS)


def test_a_whole_call_in_a_session_may_use_its_buffers(client: Client) -> None:
    with client, client.open_session("ascend910b") as session:
        columns = session.upload(np.ones((4, 4), np.float32))
        image = session.empty((1, 3, 3), np.float32)
        request = ParseDict({"plan": CALL, "session": session.name}, RunRequest())
        request.inputs.add(index=0, data=ONES)
        (output,) = client._connection.call(RUN, request).outputs
        assert output.data == COUNTS
        request.ClearField("inputs")
        request.plan.im2col_backward.grad_output.buffer = columns.spec.buffer
        request.plan.im2col_backward.out.buffer = image.spec.buffer
        (output,) = client._connection.call(RUN, request).outputs
        assert output.data == image.download().tobytes() == COUNTS


def test_inputs_beyond_the_limit_of_a_batch_are_refused(client: Client) -> None:
    with pytest.raises(OpserveError) as raised:
        run(client, open={}, inputs=[{"index": 0, "data": "AAAA" * 2**19}])
    assert raised.value.code == 161002  # these bytes are not those of the tensor


@pytest.mark.parametrize(
    ("terms", "code"), [({"accuracy": "none"}, 107000), ({"tags": ["none has it"]}, 107001)]
)
def test_a_whole_call_has_the_terms_of_its_session(
    client: Client, terms: dict[str, object], code: int
) -> None:
    with pytest.raises(OpserveError) as raised:
        run(client, open=terms)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("fields", "parameter"),
    [
        ({"session": "5e55", "open": {}}, "session"),
        ({"open": {"request_id": "1"}}, "open.request_id"),
        ({"open": {"tell_after_s": 1}}, "open.tell_after_s"),
        ({"open": {}, "plan": {"session": "5e55", **CALL}}, "plan.session"),
        ({"open": {}, "plan": {"executor": 1, **CALL}}, "plan.executor"),
        ({"open": {}, "plan": {"request_id": "1", **CALL}}, "plan.request_id"),
        ({"open": {}, "plan": {}}, "operator"),
        ({"open": {}, "inputs": [{"index": 0}, {"index": 0}, {"index": 0}]}, "inputs"),
        ({"open": {}, "inputs": [{"index": 0}, {"index": 0}]}, "inputs"),
    ],
)
def test_a_contradiction_is_refused(
    client: Client, fields: dict[str, object], parameter: str
) -> None:
    with pytest.raises(OpserveError) as raised:
        run(client, **fields)
    assert (raised.value.code, raised.value.parameter) == (100000, parameter)


def test_without_a_session_or_one_of_its_own_it_is_refused(client: Client) -> None:
    with pytest.raises(OpserveError) as raised:
        run(client)
    assert (raised.value.code, raised.value.parameter) == (100000, "session")
