"""Calls of 1 KiB over the Open Inference Protocol, beside opserve's own one-shot calls."""

import json
from collections.abc import Callable, Mapping

import grpc

from benchmarks.measure import percentile, seconds_of
from benchmarks.one_shot import rest_request, run_request
from benchmarks.raw import TIMEOUT_S
from benchmarks.rounds import Pair
from benchmarks.small_call import COLUMNS, DATA, IMAGE
from opserve.open_inference import inference_service_pb2 as pb
from opserve_client.http_blocking import HttpConnections
from opserve_client.wire.http_messages import Request, origin_of
from opserve_client.wire.methods import RUN

INFER = "ModelInfer of 1 KiB, p50, ms | the RPC Run"
INFER_HTTP = "/v2 infer of 1 KiB, p50, ms | the one-shot form"
CALLS = 200
MODEL = "aclnnIm2colBackward_unbatched"
ATTRIBUTES = {
    "input_size": json.dumps(IMAGE[1:]),
    "kernel_size": "[1,1]",
    "dilation": "[1,1]",
    "padding": "[0,0]",
    "stride": "[1,1]",
}


class InferenceCalls:
    """The same fold four ways, one call of each after the other.

    Args:
        channel: Channel of the gRPC API.
        rest: URL of the HTTP port.
    """

    def __init__(self, channel: grpc.Channel, rest: str) -> None:
        self._channel = channel
        self._http = HttpConnections(origin_of(rest), None)

    def measure(self) -> Mapping[str, Pair]:
        """Measures both protocols over both wires."""
        infer = self._rpc("/inference.GRPCInferenceService/ModelInfer", infer_message())
        run = self._rpc(RUN.path, run_request().SerializeToString())
        over_http, one_shot = self._post(infer_request()), self._post(rest_request())
        return {INFER: side_by_side(infer, run), INFER_HTTP: side_by_side(over_http, one_shot)}

    def _rpc(self, path: str, message: bytes) -> Callable[[], None]:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(path)

        def made() -> None:
            assert DATA in call(message, timeout=TIMEOUT_S)

        return made

    def _post(self, request: Request) -> Callable[[], None]:
        def made() -> None:
            _, answer = self._http.call(request, timeout_s=TIMEOUT_S)
            assert DATA in answer, answer

        return made


def side_by_side(ours: Callable[[], None], theirs: Callable[[], None]) -> Pair:
    """Returns the p50 of both, whose calls take turns: a disturbance affects both."""
    both = [(seconds_of(ours), seconds_of(theirs)) for _ in range(CALLS)]
    subject, yardstick = (percentile(list(one), 50) * 1e3 for one in zip(*both, strict=True))
    return Pair(subject=subject, yardstick=yardstick)


def infer_message() -> bytes:
    """Returns the call as a message of the protocol, with attributes as texts."""
    request = pb.ModelInferRequest(model_name=MODEL, raw_input_contents=[DATA])
    request.inputs.add(name="grad_output", datatype="FP32", shape=COLUMNS)
    for name, text in ATTRIBUTES.items():
        request.parameters[name].string_param = text
    return request.SerializeToString()


def infer_request() -> Request:
    """Returns the call over HTTP, with a binary tensor behind the document."""
    tensor = {"name": "grad_output", "datatype": "FP32", "shape": COLUMNS}
    document = json.dumps(
        {
            "inputs": [tensor | {"parameters": {"binary_data_size": len(DATA)}}],
            "parameters": ATTRIBUTES | {"binary_data_output": True},
        }
    ).encode()
    fields = (("Inference-Header-Content-Length", f"{len(document)}"),)
    return Request("POST", f"/v2/models/{MODEL}/infer", fields, document + DATA)
