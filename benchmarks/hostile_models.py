"""Calls of models that a hostile tenant sends: giant shapes, long lists and deep JSON."""

import json
from collections.abc import Iterator

from opserve.open_inference import inference_service_pb2 as pb

MODEL = "aclnnIm2colBackward"
MODEL_INFER = "/inference.GRPCInferenceService/ModelInfer"
POST_INFER = f"POST /v2/models/{MODEL}/infer HTTP/1.1"
DATA_AFTER_ALL = f"{POST_INFER}\r\nInference-Header-Content-Length: 2"
"""Head of a request whose JSON document is an empty object."""
_MIB = 2**20
_SHAPES = ([2**62] * 3, [0, 2**62, 2**62], [-1] * 3, [1] * 5000, [2**20, 2**20, 0])
_MANY = 100_000
_NESTED = 5000


def infer_bodies() -> Iterator[bytes]:
    """Yields bodies of infer over HTTP."""
    tensor = {"name": "grad_output", "datatype": "FP32", "shape": [1, 1, 1], "data": [1]}
    for shape in _SHAPES:
        yield json.dumps({"inputs": [tensor | {"shape": shape}]}).encode()
    yield json.dumps({"inputs": [tensor | {"data": [1] * _MANY}]}).encode()
    yield json.dumps({"inputs": [tensor] * 8000}).encode()
    yield json.dumps({"inputs": [tensor | {"data": ["x" * 2**17, *[1] * 4000]}]}).encode()
    yield b'{"inputs":[{"data":' + b"[" * _NESTED
    yield b'{"parameters":{"timeout":' + b"9" * 4000 + b"}}"
    yield b'{"id":"' + b"x" * 3 * _MIB + b'"}'


def infer_messages() -> Iterator[bytes]:
    """Yields messages of ModelInfer over gRPC."""
    for shape in _SHAPES:
        request = pb.ModelInferRequest(model_name=MODEL, raw_input_contents=[b"1234"])
        request.inputs.add(name="grad_output", datatype="FP32", shape=shape)
        yield request.SerializeToString()
    many = pb.ModelInferRequest(model_name=MODEL)
    tensor = many.inputs.add(name="grad_output", datatype="FP32", shape=[1, 1, _MANY])
    tensor.contents.fp32_contents.extend([1.0] * _MANY)
    yield many.SerializeToString()
    named = pb.ModelInferRequest(model_name="m" * _MIB, id="i" * _MIB, model_version="v" * _MIB)
    for number in range(5000):
        named.parameters[f"{number}"].int64_param = number
    yield named.SerializeToString()
