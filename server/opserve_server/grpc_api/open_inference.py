"""The Open Inference Protocol over gRPC, as stock clients of Triton use it."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sized
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NoReturn

import grpc
import numpy as np
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from opserve.open_inference import inference_service_pb2 as pb
from opserve_kernels.errors import shortened
from opserve_kernels.status import Status
from opserve_server.calls import caller, malformed, note_failure
from opserve_server.core.errors import NotSupported, OpserveError
from opserve_server.core.info import ready_profiles
from opserve_server.grpc_api.errors import Context
from opserve_server.grpc_api.methods import WrappingServer
from opserve_server.inference.infer import PARAMETERS_LIMIT, InferAnswer, InferCall, Inference
from opserve_server.inference.models import MODELS, Model, TensorMetadata, model_named
from opserve_server.inference.statistics import ModelCounts
from opserve_server.inference.tensors import RANK_LIMIT, WireTensor
from opserve_server.version import VERSION

SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
NAME = "opserve"
EXTENSIONS = (
    *("binary_tensor_data", "model_configuration", "model_repository", "parameters"),
    "statistics",
)
_BUILT_IN = "models are built in"
_MEMORY = "send tensors in the message, or map device memory by opserve's own client"
REASONS: Mapping[str, str] = {
    "RepositoryModelLoad": _BUILT_IN,
    "RepositoryModelUnload": _BUILT_IN,
    "SystemSharedMemoryStatus": _MEMORY,
    "SystemSharedMemoryRegister": _MEMORY,
    "SystemSharedMemoryUnregister": _MEMORY,
    "CudaSharedMemoryStatus": _MEMORY,
    "CudaSharedMemoryRegister": _MEMORY,
    "CudaSharedMemoryUnregister": _MEMORY,
    "TraceSetting": "the administrator of the service configures traces",
    "LogSettings": "the administrator of the service configures logs",
}
"""Methods that are not supported, each with the reason or what to do instead."""
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
        return pb.ServerReadyResponse(ready=any(self._profiles().values()))

    async def ModelReady(
        self, request: pb.ModelReadyRequest, context: Context
    ) -> pb.ModelReadyResponse:
        model = model_named(request.name, request.version)
        return pb.ModelReadyResponse(ready=self._is_ready(model))

    async def ServerMetadata(
        self, request: pb.ServerMetadataRequest, context: Context
    ) -> pb.ServerMetadataResponse:
        return pb.ServerMetadataResponse(name=NAME, version=VERSION, extensions=EXTENSIONS)

    async def ModelMetadata(
        self, request: pb.ModelMetadataRequest, context: Context
    ) -> pb.ModelMetadataResponse:
        model = model_named(request.name, request.version)
        return pb.ModelMetadataResponse(
            name=model.name,
            versions=[model.version],
            platform=NAME,
            inputs=map(_metadata, model.inputs),
            outputs=map(_metadata, model.outputs),
        )

    async def ModelConfig(
        self, request: pb.ModelConfigRequest, context: Context
    ) -> pb.ModelConfigResponse:
        return pb.ModelConfigResponse(config=_config(model_named(request.name, request.version)))

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
                answer = pb.ModelInferResponse(id=request.id[:PARAMETERS_LIMIT])
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
        account = self.inference.service.accounts.of(caller().tenant)
        names = [model_named(request.name, request.version)] if request.name else MODELS.values()
        counts = ((model, self.inference.statistics.of(account, model)) for model in names)
        return pb.ModelStatisticsResponse(model_stats=[_statistics(*one) for one in counts])

    async def RepositoryIndex(
        self, request: pb.RepositoryIndexRequest, context: Context
    ) -> pb.RepositoryIndexResponse:
        index = pb.RepositoryIndexResponse()
        for model in MODELS.values():
            ready = self._is_ready(model)
            if ready or not request.ready:
                state, reason = ("READY", "") if ready else ("UNAVAILABLE", "no device is ready")
                index.models.add(name=model.name, version=model.version, state=state, reason=reason)
        return index

    def _is_ready(self, model: Model) -> bool:
        """Whether a device that has the operator is ready."""
        return any(
            ready and name in model.operator.support for name, ready in self._profiles().items()
        )

    def _profiles(self) -> dict[str, bool]:
        service = self.inference.service
        return {} if service.draining else ready_profiles(service.list_devices(caller()))


async def _refuse(name: str, *_: object) -> NoReturn:
    raise NotSupported(
        Status.ACL_ERROR_API_NOT_SUPPORT,
        f"{name} is not supported: {REASONS[name]}.",
        parameter=name,
        given="a call",
        allowed="none",
    )


def call_of(request: pb.ModelInferRequest) -> InferCall:
    """The call of a message; what may be long is counted first.

    Raises:
        InvalidArgument: 100000, the message has too many members, or contradicts itself.
    """
    for name in ("parameters", "inputs", "outputs"):
        _check_few(name, getattr(request, name))
    inputs, raw = request.inputs, request.raw_input_contents
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
        broken = [
            {name: shortened(str(value)) for name, value in asdict(warning).items()}
            for warning in answer.warnings
        ]
        message.parameters["warnings"].string_param = json.dumps(broken)
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


def _metadata(tensor: TensorMetadata) -> pb.ModelMetadataResponse.TensorMetadata:
    return pb.ModelMetadataResponse.TensorMetadata(**asdict(tensor))


def _config(model: Model) -> pb.ModelConfig:
    config = pb.ModelConfig(name=model.name, platform=NAME, backend=NAME, max_batch_size=0)
    for tensor in model.inputs:
        # The operator decides which of its arguments it needs.
        config.input.add(
            name=tensor.name, data_type=_type(tensor), dims=tensor.shape, optional=True
        )
    for tensor in model.outputs:
        config.output.add(name=tensor.name, data_type=_type(tensor), dims=tensor.shape)
    return config


def _type(tensor: TensorMetadata) -> pb.DataType.ValueType:
    return pb.DataType.Value(f"TYPE_{tensor.datatype}")


def _statistics(model: Model, counts: ModelCounts) -> pb.ModelStatistics:
    done = counts.success.count
    none = pb.StatisticDuration(count=done)
    return pb.ModelStatistics(
        name=model.name,
        version=model.version,
        last_inference=counts.last_ms,
        inference_count=done,
        execution_count=done,
        inference_stats=pb.InferStatistics(
            success=pb.StatisticDuration(**asdict(counts.success)),
            fail=pb.StatisticDuration(**asdict(counts.fail)),
            queue=none,
            compute_input=none,
            compute_infer=pb.StatisticDuration(**asdict(counts.compute)),
            compute_output=pb.StatisticDuration(**asdict(counts.output)),
        ),
    )
