"""The Open Inference Protocol over gRPC, as stock clients of Triton use it."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sized
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import grpc
import numpy as np
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from opserve.open_inference import inference_service_pb2 as pb
from opserve_kernels.errors import shortened
from opserve_server.calls import caller, malformed, note_failure
from opserve_server.core.errors import OpserveError
from opserve_server.grpc_api.errors import Context
from opserve_server.grpc_api.methods import WrappingServer
from opserve_server.inference.arguments import TEXT_CHARACTERS
from opserve_server.inference.descriptions import (
    ServerMetadata,
    config_of,
    index_of,
    is_ready,
    metadata_of,
    statistics_of,
)
from opserve_server.inference.infer import PARAMETERS_LIMIT, InferAnswer, InferCall, Inference
from opserve_server.inference.models import model_named
from opserve_server.inference.tensors import RANK_LIMIT, WireTensor
from opserve_server.inference.unsupported import REASONS, check_tensor_parameters, not_supported

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MessageT = TypeVar("MessageT", bound=Message)
_ModelIndex = pb.RepositoryIndexResponse.ModelIndex
SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
_CONTENTS: Mapping[str, tuple[str, str]] = {
    "FP32": ("fp32_contents", "<f4"),
    "FP64": ("fp64_contents", "<f8"),
    "INT64": ("int64_contents", "<i8"),
    "BOOL": ("bool_contents", "?"),
}
"""Field of the elements of a datatype, and their NumPy type."""
_FINAL = "triton_enable_empty_final_response"


def add_open_inference(server: WrappingServer, inference: Inference) -> None:
    """Adds the methods to a server."""
    models = _Models(inference)
    handlers = {rpc.name: _handler(rpc, models) for rpc in SERVICE.methods}
    server.add_registered_method_handlers(SERVICE.full_name, handlers)


def _handler(rpc: MethodDescriptor, models: "_Models") -> "grpc.RpcMethodHandler[Any, Any]":
    refusing = partial(_refuse, rpc.name)
    behaviour = refusing if rpc.name in REASONS else getattr(models, rpc.name)
    request, answer = GetMessageClass(rpc.input_type), GetMessageClass(rpc.output_type)
    streams = rpc.client_streaming
    make = grpc.stream_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
    return make(behaviour, request.FromString, answer.SerializeToString)


@dataclass(frozen=True, slots=True)
class _Models:
    """The methods by name."""

    inference: Inference

    async def ServerLive(
        self, request: pb.ServerLiveRequest, context: Context
    ) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(
        self, request: pb.ServerReadyRequest, context: Context
    ) -> pb.ServerReadyResponse:
        return pb.ServerReadyResponse(ready=is_ready(self.inference.service, caller()))

    async def ModelReady(
        self, request: pb.ModelReadyRequest, context: Context
    ) -> pb.ModelReadyResponse:
        model = model_named(request.name, request.version)
        return pb.ModelReadyResponse(ready=is_ready(self.inference.service, caller(), model))

    async def ServerMetadata(
        self, request: pb.ServerMetadataRequest, context: Context
    ) -> pb.ServerMetadataResponse:
        return _message(pb.ServerMetadataResponse, ServerMetadata())

    async def ModelMetadata(
        self, request: pb.ModelMetadataRequest, context: Context
    ) -> pb.ModelMetadataResponse:
        metadata = metadata_of(model_named(request.name, request.version))
        return _message(pb.ModelMetadataResponse, metadata)

    async def ModelConfig(
        self, request: pb.ModelConfigRequest, context: Context
    ) -> pb.ModelConfigResponse:
        config = config_of(model_named(request.name, request.version))
        return pb.ModelConfigResponse(config=_message(pb.ModelConfig, config))

    async def ModelInfer(
        self, request: pb.ModelInferRequest, context: Context
    ) -> pb.ModelInferResponse:
        return answer_of(await self.inference.infer(caller(), call_of(request)), request.id)

    async def ModelStreamInfer(
        self, requests: AsyncIterator[pb.ModelInferRequest], context: Context
    ) -> AsyncGenerator[pb.ModelStreamInferResponse]:
        account = self.inference.service.accounts.of(caller().tenant)
        first = True
        async for request in requests:
            try:
                if not first:  # the stream itself was counted as the first call
                    account.admit_call()
                first = False
                made = await self.inference.infer(caller(), call_of(request))
                answer = answer_of(made, request.id)
            except OpserveError as error:
                note_failure(error)
                answer = pb.ModelInferResponse(id=request.id[:TEXT_CHARACTERS])
                yield pb.ModelStreamInferResponse(
                    error_message=shortened(error.message), infer_response=answer
                )
                continue
            if _FINAL in request.parameters:
                answer.parameters["triton_final_response"].bool_param = True
            yield pb.ModelStreamInferResponse(infer_response=answer)

    async def ModelStatistics(
        self, request: pb.ModelStatisticsRequest, context: Context
    ) -> pb.ModelStatisticsResponse:
        statistics = statistics_of(self.inference, caller(), request.name, request.version)
        return _message(pb.ModelStatisticsResponse, statistics)

    async def RepositoryIndex(
        self, request: pb.RepositoryIndexRequest, context: Context
    ) -> pb.RepositoryIndexResponse:
        index = index_of(self.inference.service, caller(), ready_only=request.ready)
        return pb.RepositoryIndexResponse(models=[_message(_ModelIndex, one) for one in index])


async def _refuse(name: str, *_: object) -> NoReturn:
    raise not_supported(name)


def _message(kind: type[MessageT], description: "DataclassInstance") -> MessageT:
    return kind(**asdict(description))


def call_of(request: pb.ModelInferRequest) -> InferCall:
    """The call of a message; what may be long is counted first.

    Raises:
        InvalidArgument: 100000, the message has too many members, or contradicts itself.
        NotSupported: 200001, a tensor is in shared memory, or a class is requested.
    """
    for name in ("parameters", "inputs", "outputs"):
        _check_few(name, getattr(request, name))
    inputs, raw = request.inputs, request.raw_input_contents
    for tensor in inputs:
        check_tensor_parameters(tensor.parameters)
    for output in request.outputs:
        check_tensor_parameters(output.parameters)
    if raw and len(raw) != len(inputs):
        allowed = f"one for each of {len(inputs)} inputs"
        raise malformed("raw_input_contents", given=str(len(raw)), allowed=allowed)
    return InferCall(
        model=request.model_name,
        version=request.model_version,
        parameters={name: _value(one) for name, one in request.parameters.items()},
        inputs=[
            WireTensor(
                name=one.name,
                datatype=one.datatype,
                shape=tuple(one.shape[: RANK_LIMIT + 1]),
                data=raw[index] if raw else _contents(one),
            )
            for index, one in enumerate(inputs)
        ],
        outputs=[one.name for one in request.outputs],
    )


def answer_of(answer: InferAnswer, request_id: str) -> pb.ModelInferResponse:
    """The message of an answer."""
    message = pb.ModelInferResponse(
        model_name=answer.model.name,
        model_version=answer.model.version,
        id=request_id,
        raw_output_contents=[output.data for output in answer.outputs],
    )
    for output in answer.outputs:
        message.outputs.add(name=output.name, datatype=output.datatype, shape=output.shape)
    if answer.warnings:
        message.parameters["warnings"].string_param = answer.warnings_text
    return message


def _check_few(name: str, members: Sized) -> None:
    if len(members) > PARAMETERS_LIMIT:
        raise malformed(name, given=str(len(members)), allowed=f"at most {PARAMETERS_LIMIT}")


def _value(parameter: pb.InferParameter) -> object:
    kind = parameter.WhichOneof("parameter_choice")
    return None if kind is None else getattr(parameter, kind)


def _contents(tensor: pb.ModelInferRequest.InferInputTensor) -> bytes:
    """The bytes of a tensor whose elements are in a list of numbers."""
    if tensor.datatype not in _CONTENTS:
        allowed = f"bytes in raw_input_contents; contents are for {', '.join(_CONTENTS)}"
        raise malformed(tensor.name[:64], given="contents, or nothing", allowed=allowed)
    name, dtype = _CONTENTS[tensor.datatype]
    return np.asarray(getattr(tensor.contents, name), dtype).tobytes()
