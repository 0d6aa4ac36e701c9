"""Descriptions of the service and its models, in the protocol's form for both APIs."""

from collections.abc import Iterator
from dataclasses import dataclass

from opserve_server.core.info import ready_profiles
from opserve_server.core.principal import Principal
from opserve_server.core.service import Service
from opserve_server.inference.infer import Inference
from opserve_server.inference.models import MODELS, Model, TensorMetadata, model_named
from opserve_server.inference.statistics import Duration, ModelCounts
from opserve_server.version import VERSION

NAME = "opserve"
_EXTENSIONS = (
    *("binary_tensor_data", "model_configuration", "model_repository", "parameters"),
    "statistics",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetadata:
    """The service.

    Attributes:
        name: Always "opserve".
        version: Its version.
        extensions: The protocol's extensions that it has.
    """

    name: str = NAME
    version: str = VERSION
    extensions: tuple[str, ...] = _EXTENSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetadata:
    """A model.

    Attributes:
        name: Its name.
        versions: Its only version, the revision of the operator's contract.
        platform: Always "opserve".
        inputs: Tensors of a call, and attributes that may be tensors.
        outputs: Tensors of an answer.
    """

    name: str
    versions: tuple[str, ...]
    platform: str = NAME
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput:
    """An input in the configuration of a model.

    Attributes:
        name: Its name.
        data_type: Its datatype after "TYPE_".
        dims: Its shape; -1 is any size.
        optional: Always true: the operator decides which of its arguments it needs.
    """

    name: str
    data_type: str
    dims: tuple[int, ...]
    optional: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutput:
    """An output in the configuration of a model.

    Attributes:
        name: Its name.
        data_type: Its datatype after "TYPE_".
        dims: Its shape; -1 is any size.
    """

    name: str
    data_type: str
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The configuration of a model.

    Attributes:
        name: Its name.
        platform: Always "opserve".
        backend: Always "opserve".
        max_batch_size: Always 0: a batch is part of a tensor's shape.
        input: Tensors of a call, and attributes that may be tensors.
        output: Tensors of an answer.
    """

    name: str
    platform: str = NAME
    backend: str = NAME
    max_batch_size: int = 0
    input: tuple[ModelInput, ...]
    output: tuple[ModelOutput, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelIndex:
    """A model in the index.

    Attributes:
        name: Its name.
        version: Its version.
        state: "READY", or "UNAVAILABLE".
        reason: Why it is unavailable, or empty.
    """

    name: str
    version: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InferStatistics:
    """Counts and durations of the calls of a model.

    Attributes:
        success: Calls that succeeded, from their message to their outputs.
        fail: Calls that failed.
        queue: Always without a duration: the wait for a device is in compute_infer.
        compute_input: Always without a duration.
        compute_infer: Of calls that succeeded, the wait for a device and the computation.
        compute_output: Of calls that succeeded, the copy of their outputs.
    """

    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatistics:
    """Statistics of a model.

    Attributes:
        name: Its name.
        version: Its version.
        last_inference: Time of the last call that succeeded, in milliseconds since 1970.
        inference_count: Calls that succeeded.
        execution_count: The same number.
        inference_stats: Their durations.
    """

    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    inference_stats: InferStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsAnswer:
    """Statistics of models, of the calls of one tenant.

    Attributes:
        model_stats: One entry for each model.
    """

    model_stats: tuple[ModelStatistics, ...]


def metadata_of(model: Model) -> ModelMetadata:
    """The metadata of a model."""
    return ModelMetadata(
        name=model.name, versions=(model.version,), inputs=model.inputs, outputs=model.outputs
    )


def config_of(model: Model) -> ModelConfig:
    """The configuration of a model."""
    return ModelConfig(
        name=model.name,
        input=tuple(
            ModelInput(name=one.name, data_type=f"TYPE_{one.datatype}", dims=one.shape)
            for one in model.inputs
        ),
        output=tuple(
            ModelOutput(name=one.name, data_type=f"TYPE_{one.datatype}", dims=one.shape)
            for one in model.outputs
        ),
    )


def is_ready(service: Service, principal: Principal, model: Model | None = None) -> bool:
    """Whether a device that has the model's operator is ready; without a model any device."""
    profiles = _ready_profiles(service, principal)
    return bool(profiles) if model is None else not profiles.isdisjoint(model.operator.support)


def index_of(service: Service, principal: Principal, *, ready_only: bool) -> Iterator[ModelIndex]:
    """The models."""
    profiles = _ready_profiles(service, principal)
    for model in MODELS.values():
        ready = not profiles.isdisjoint(model.operator.support)
        if ready or not ready_only:
            state, reason = ("READY", "") if ready else ("UNAVAILABLE", "no device is ready")
            yield ModelIndex(name=model.name, version=model.version, state=state, reason=reason)


def statistics_of(
    inference: Inference, principal: Principal, name: str = "", version: str = ""
) -> StatisticsAnswer:
    """Statistics of a model, or of every one.

    Raises:
        HandleNotFound: 107017, there is no such model or version.
    """
    account = inference.service.accounts.of(principal.tenant)
    models = [model_named(name, version)] if name else MODELS.values()
    counts = ((model, inference.statistics.of(account, model)) for model in models)
    return StatisticsAnswer(model_stats=tuple(_statistics(*one) for one in counts))


def _ready_profiles(service: Service, principal: Principal) -> set[str]:
    if service.draining:
        return set()
    devices = service.list_devices(principal)
    return {profile for profile, ready in ready_profiles(devices).items() if ready}


def _statistics(model: Model, counts: ModelCounts) -> ModelStatistics:
    done = counts.success.count
    return ModelStatistics(
        name=model.name,
        version=model.version,
        last_inference=counts.last_ms,
        inference_count=done,
        execution_count=done,
        inference_stats=InferStatistics(
            success=counts.success,
            fail=counts.fail,
            queue=Duration(done),
            compute_input=Duration(done),
            compute_infer=counts.compute,
            compute_output=counts.output,
        ),
    )
