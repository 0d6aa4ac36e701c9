"""The Open Inference Protocol: models compute what session.run does, and reject what is wrong."""

import json
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from contract.open_inference import DATATYPES, DTYPES, ModelCall, model_call, ten_calls
from opserve.open_inference import inference_service_pb2 as pb
from opserve_client import Client, Im2colBackward
from opserve_client.operators import OperatorCall
from opserve_client.private_service import Addresses

pytestmark = [
    pytest.mark.system,
    pytest.mark.filterwarnings("ignore::opserve_client.DocumentedRuleWarning"),
]
SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
COLUMNS = Im2colBackward(
    grad_output=np.ones((1, 4, 4), np.float32),
    input_size=[3, 3],
    kernel_size=[2, 2],
    dilation=[1, 1],
    padding=[0, 0],
    stride=[1, 1],
)
COUNTS = np.array([1, 2, 1, 2, 4, 2, 1, 2, 1], np.float32).tobytes()
BAD, LARGE = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED


class Models:
    """The methods, without Triton's client."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)

    def close(self) -> None:
        self._channel.close()

    def call(self, name: str, request: Any) -> Any:
        return self._method(name, "unary_unary")(request, timeout=60)

    def stream(self, requests: list[pb.ModelInferRequest]) -> list[pb.ModelStreamInferResponse]:
        return list(self._method("ModelStreamInfer", "stream_stream")(iter(requests), timeout=60))

    def error(self, name: str, request: Any) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.RpcError) as caught:
            self.call(name, request)
        error: Any = caught.value
        return error.code(), error.details()

    def _method(self, name: str, kind: str) -> Any:
        (rpc,) = [one for one in SERVICE.methods if one.name == name]
        request, answer = (getattr(pb, one.name) for one in (rpc.input_type, rpc.output_type))
        made = getattr(self._channel, kind)
        path = f"/{SERVICE.full_name}/{name}"
        return made(path, request.SerializeToString, answer.FromString)


@pytest.fixture
def models(service: Addresses) -> Iterator[Models]:
    models = Models(service.grpc)
    yield models
    models.close()


def request_of(call: ModelCall, *, as_tensors: bool = False) -> pb.ModelInferRequest:
    request = pb.ModelInferRequest(model_name=call.model, id="of this test")
    inputs = dict(call.inputs)
    for name, value in call.parameters.items():
        if isinstance(value, bool):
            request.parameters[name].bool_param = value
        elif isinstance(value, int):
            request.parameters[name].int64_param = value
        elif as_tensors and value.startswith("["):
            inputs[name] = np.array(json.loads(value))
        else:
            request.parameters[name].string_param = value
    for name, array in inputs.items():
        datatype = DATATYPES[array.dtype.name]
        request.inputs.add(name=name, datatype=datatype, shape=array.shape)
        request.raw_input_contents.append(array.tobytes())
    for name in call.outputs:
        request.outputs.add(name=name)
    return request


def columns_request(**options: str) -> pb.ModelInferRequest:
    return request_of(model_call(COLUMNS, "", **options))


@pytest.mark.parametrize("as_tensors", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_ten_calls_give_the_bytes_of_session_run(
    service: Addresses, models: Models, dtype: str, *, as_tensors: bool
) -> None:
    profile = "reference" if dtype == "float64" else "ascend910b"
    with Client(service.grpc) as client, client.open_session(profile) as session:
        for form, call in ten_calls(dtype):
            right = session.run(call)._asdict()
            expected = {name: array for name, array in right.items() if array is not None}
            request = request_of(model_call(call, form, profile=profile), as_tensors=as_tensors)
            mask = getattr(call, "output_mask", None)
            if mask is not None:  # the requested outputs are the mask
                names = [name for name, wanted in zip(right, mask, strict=True) if wanted]
                request.outputs.extend(
                    pb.ModelInferRequest.InferRequestedOutputTensor(name=name) for name in names
                )
                request = _without_mask(request)
            answer = models.call("ModelInfer", request)
            assert answer.id == "of this test"
            assert [one.name for one in answer.outputs] == list(expected)
            for output, data in zip(answer.outputs, answer.raw_output_contents, strict=True):
                found = np.frombuffer(data, DTYPES[output.datatype]).reshape(list(output.shape))
                assert found.dtype == expected[output.name].dtype
                assert found.shape == expected[output.name].shape
                assert found.tobytes() == expected[output.name].tobytes(), (form, call)


def _without_mask(request: pb.ModelInferRequest) -> pb.ModelInferRequest:
    request.parameters.pop("output_mask", None)
    kept = [one.name != "output_mask" for one in request.inputs]
    raw = [data for data, keep in zip(request.raw_input_contents, kept, strict=True) if keep]
    inputs = [one for one, keep in zip(request.inputs, kept, strict=True) if keep]
    del request.raw_input_contents[:], request.inputs[:]
    request.raw_input_contents.extend(raw)
    request.inputs.extend(inputs)
    return request


def test_a_call_beyond_64_kib_gives_the_same_bytes(service: Addresses, models: Models) -> None:
    columns = np.random.default_rng(7).standard_normal((4, 36, 900)).astype(np.float32)
    call = Im2colBackward(
        grad_output=columns, input_size=[32, 32], kernel_size=[3, 3], dilation=[1, 1],
        padding=[0, 0], stride=[1, 1],
    )  # fmt: skip
    (data,) = models.call("ModelInfer", request_of(model_call(call, ""))).raw_output_contents
    with Client(service.grpc) as client, client.open_session() as session:
        assert data == session.run(call).out.tobytes()


def test_elements_may_be_numbers_and_an_output_may_have_another_dtype(models: Models) -> None:
    request = columns_request(dtype_of_out="FP16")
    del request.raw_input_contents[:]
    request.inputs[0].contents.fp32_contents.extend([1.0] * 16)
    answer = models.call("ModelInfer", request)
    assert answer.outputs[0].datatype == "FP16"
    counts = np.frombuffer(COUNTS, np.float32).astype(np.float16)
    assert answer.raw_output_contents[0] == counts.tobytes()


def test_a_stream_answers_in_order_and_an_error_does_not_end_it(models: Models) -> None:
    wrong, last = columns_request(stride="[0,0]"), columns_request()
    last.parameters["triton_enable_empty_final_response"].bool_param = True
    wrong.id, last.id = "wrong", "last"
    first, second, third = models.stream([columns_request(), wrong, last])
    assert first.infer_response.raw_output_contents[0] == COUNTS
    assert not first.error_message
    assert second.error_message.startswith("stride does not accept")
    assert second.infer_response.id == "wrong"
    assert third.infer_response.raw_output_contents[0] == COUNTS
    assert third.infer_response.id == "last"
    assert third.infer_response.parameters["triton_final_response"].bool_param


def test_metadata_lists_every_operator_and_each_model_is_ready(models: Models) -> None:
    index = models.call("RepositoryIndex", pb.RepositoryIndexRequest()).models
    assert {"aclnnConvolutionBackward", "aclnnConvolution_3d", "aclnnIm2col_unbatched"} <= {
        one.name for one in index
    }
    for one in index:
        assert one.state == "READY"
        named = {"name": one.name, "version": one.version}
        assert models.call("ModelReady", pb.ModelReadyRequest(**named)).ready
        metadata = models.call("ModelMetadata", pb.ModelMetadataRequest(**named))
        config = models.call("ModelConfig", pb.ModelConfigRequest(**named)).config
        assert list(metadata.versions) == [one.version]
        for tensors, others in (
            (metadata.inputs, config.input),
            (metadata.outputs, config.output),
        ):
            assert [(t.name, list(t.shape)) for t in tensors] == [
                (t.name, list(t.dims)) for t in others
            ]
    assert models.call("ServerReady", pb.ServerReadyRequest()).ready
    assert models.call("ServerLive", pb.ServerLiveRequest()).live


def test_statistics_count_what_succeeded_and_what_failed(models: Models) -> None:
    name = "aclnnIm2colBackward"

    def counts() -> tuple[int, int]:
        request = pb.ModelStatisticsRequest(name=name)
        (found,) = models.call("ModelStatistics", request).model_stats
        assert found.name == name
        assert found.inference_count == found.inference_stats.compute_infer.count
        return found.inference_stats.success.count, found.inference_stats.fail.count

    before = counts()
    models.call("ModelInfer", columns_request())
    models.error("ModelInfer", columns_request(stride="[0,0]"))
    assert counts() == (before[0] + 1, before[1] + 1)
    assert len(models.call("ModelStatistics", pb.ModelStatisticsRequest()).model_stats) > 10


def wrong_requests() -> Iterator[tuple[str, pb.ModelInferRequest, str]]:
    """Requests that no client of Triton's writes, with a part of the answer."""
    yield from wrong_attributes()
    yield from wrong_tensors()


def wrong_attributes() -> Iterator[tuple[str, pb.ModelInferRequest, str]]:
    yield "attribute", columns_request(stride="[" * 1000), "stride does not accept"
    yield "long attribute", columns_request(stride=f"[{'1,' * 10**6}1]"), "stride does not accept"
    yield "long list", columns_request(stride=f"[{'1,' * 99}1]"), "100 entries"
    yield "no number", columns_request(stride="[true, 1]"), "stride does not accept"
    yield "unknown", columns_request(strides="[1,1]"), "strides"
    yield "dtype", columns_request(dtype_of_out="FP8"), "dtype_of_out does not accept FP8"
    yield "profile", columns_request(profile="x" * 10**6), "profile does not accept"
    many = columns_request()
    for number in range(10**4):
        many.parameters[f"p{number}"].bool_param = True
    yield "parameters", many, "parameters does not accept"
    inputs = columns_request()
    for _ in range(10**4):
        inputs.inputs.add(name="grad_output")
    yield "inputs", inputs, "inputs does not accept"
    outputs = columns_request()
    for _ in range(10**4):
        outputs.outputs.add(name="out")
    yield "outputs", outputs, "outputs does not accept"
    output = columns_request()
    output.outputs.add(name="o" * 10**6)
    yield "output", output, "outputs does not accept"


def wrong_tensors() -> Iterator[tuple[str, pb.ModelInferRequest, str]]:
    for name, shape in (("negative", [-1, 4, 4]), ("huge", [2**62] * 3), ("rank", [1] * 10**5)):
        request = columns_request()
        request.inputs[0].ClearField("shape")
        request.inputs[0].shape.extend(shape)
        yield name, request, "grad_output does not accept"
    twice = columns_request()
    twice.inputs.add(name="stride", datatype="INT64", shape=[2])
    twice.raw_input_contents.append(np.ones(2, np.int64).tobytes())
    yield "twice", twice, "stride does not accept two values"
    datatype = columns_request()
    datatype.inputs[0].datatype = "FP" * 10**6
    yield "datatype", datatype, "grad_output does not accept"
    short = columns_request()
    short.raw_input_contents[0] = b"1234"
    yield "bytes", short, "grad_output does not accept 4 bytes"
    none = columns_request()
    del none.raw_input_contents[:]
    yield "none", none, "64 bytes"
    missing = columns_request()
    missing.parameters.pop("stride")
    yield "missing", missing, "stride"


@pytest.mark.parametrize("name", [name for name, _, _ in wrong_requests()])
def test_a_wrong_request_is_rejected_with_the_reason(models: Models, name: str) -> None:
    ((request, reason),) = [(one, part) for known, one, part in wrong_requests() if known == name]
    code, details = models.error("ModelInfer", request)
    assert code is BAD
    assert reason in details
    assert len(details) < 1000
    assert models.call("ModelInfer", columns_request()).raw_output_contents[0] == COUNTS


def test_an_unknown_model_and_version_are_not_found(models: Models) -> None:
    unknown, version = columns_request(), columns_request()
    unknown.model_name, version.model_version = "m" * 10**6, "9" * 10**6
    for request in (unknown, version):
        code, details = models.error("ModelInfer", request)
        assert code is grpc.StatusCode.NOT_FOUND
        assert details.startswith("Request for unknown model: '")
        assert len(details) < 300


def test_a_sequence_and_the_methods_of_a_repository_are_unimplemented(models: Models) -> None:
    sequence = columns_request()
    sequence.parameters["sequence_id"].int64_param = 1
    code, details = models.error("ModelInfer", sequence)
    assert code is grpc.StatusCode.UNIMPLEMENTED
    assert details.startswith("sequence_id is not supported: ")
    refused = [rpc for rpc in SERVICE.methods if rpc.input_type.name == "Unsupported"]
    assert len(refused) == 10
    for rpc in refused:
        code, details = models.error(rpc.name, pb.Unsupported())
        assert code is grpc.StatusCode.UNIMPLEMENTED
        assert details.startswith(f"{rpc.name} is not supported: ")


def test_outputs_beyond_the_size_of_a_message_are_rejected_before_the_computation(
    models: Models,
) -> None:
    one = Im2colBackward(
        grad_output=np.ones((1, 1, 1), np.float32), input_size=[2000, 2000], kernel_size=[1, 1],
        dilation=[1, 1], padding=[0, 0], stride=[2000, 2000],
    )  # fmt: skip
    code, details = models.error("ModelInfer", request_of(model_call(one, "")))
    assert code is LARGE
    assert "16000000 bytes" in details


def test_a_warning_of_the_vendors_page_comes_with_the_answer(models: Models) -> None:
    call: OperatorCall[Any]
    _, call = ten_calls("float32")[1]
    request = request_of(model_call(call, ""))
    request.parameters["cube_math_type"].int64_param = 0
    (warning, *_) = json.loads(
        models.call("ModelInfer", request).parameters["warnings"].string_param
    )
    assert warning["parameter"] == "cube_math_type"
