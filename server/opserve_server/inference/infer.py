"""Inference: a call of a model as a whole call of its operator."""

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from numpy.typing import NDArray

from opserve_kernels.errors import choices_shortened, shortened
from opserve_kernels.tensor import DataType, Format
from opserve_server.calls import malformed
from opserve_server.core.errors import OpserveError
from opserve_server.core.one_shot import OneShotCall, TensorChoice, computed
from opserve_server.core.principal import Principal
from opserve_server.core.results import RuleWarning
from opserve_server.core.service import Service
from opserve_server.core.session_request import SessionRequest
from opserve_server.inference.arguments import TEXT_CHARACTERS, attribute
from opserve_server.inference.models import DATATYPES, Model, model_named
from opserve_server.inference.statistics import Statistics
from opserve_server.inference.tensors import OF_DATATYPE, WireTensor, array_of, attribute_value
from opserve_server.inference.unsupported import no_sequences

SESSION_PARAMETERS = ("profile", "accuracy", "documented_rules")
"""Parameters that configure the session of a call."""
PARAMETERS_LIMIT = 64
"""Parameters of a call, its inputs and its outputs, at most, each."""
_WAIT_US, _US_PER_S = 30_000_000, 1e6
_DTYPE_OF, _FORMAT_OF, _MASK = "dtype_of_", "format_of_", "output_mask"
_IGNORED = frozenset({"priority", "headers", "binary_data_output", "timeout"})
ChoiceT = TypeVar("ChoiceT")
_IGNORED_PREFIX, _SEQUENCE = "triton_", "sequence_"


@dataclass(frozen=True, slots=True, kw_only=True)
class InferCall:
    """A call of a model.

    Attributes:
        model: Name of the model.
        version: Its version; empty means its only one.
        parameters: Attributes, and options of the session, by name.
        inputs: Tensors, and attributes as tensors.
        outputs: Names of the requested outputs; empty means all.
    """

    model: str
    version: str
    parameters: Mapping[str, object]
    inputs: Sequence[WireTensor]
    outputs: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class InferAnswer:
    """The answer to a call.

    Attributes:
        model: The model.
        outputs: The requested outputs, in the operator's order.
        warnings: Broken rules of the vendor's page, where those are warnings.
    """

    model: Model
    outputs: Sequence[WireTensor]
    warnings: tuple[RuleWarning, ...]

    @property
    def warnings_text(self) -> str:
        """The warnings as JSON, for a parameter of the answer."""
        return json.dumps(
            [
                {name: shortened(str(value)) for name, value in asdict(warning).items()}
                for warning in self.warnings
            ]
        )


class Inference:
    """Calls of models.

    Args:
        service: The core.
        output_bytes_limit: Bytes of the outputs of one call, at most.

    Attributes:
        service: The core.
        statistics: Counts and durations of calls.
    """

    def __init__(self, service: Service, *, output_bytes_limit: int) -> None:
        self.service = service
        self.statistics = Statistics()
        self._output_bytes_limit = output_bytes_limit

    async def infer(self, principal: Principal, call: InferCall) -> InferAnswer:
        """Runs a call in a session of its own, on a device that is free within the timeout.

        Raises:
            HandleNotFound: 107017, there is no such model.
            InvalidArgument: 100000, a parameter or tensor is not of its form; otherwise as the
                operator rejects its arguments.
            NotSupported: 200001, the call is part of a sequence.
            OpserveError: As a whole call raises.
        """
        model = model_named(call.model, call.version)
        account = self.service.accounts.of(principal.tenant)
        counts = self.statistics.of(account, model)
        time = asyncio.get_running_loop().time
        began_s = time()
        try:
            one_shot, names = _one_shot(model, call, self._output_bytes_limit)
            with account.in_flight() as in_flight:
                async with computed(self.service, principal, one_shot, in_flight) as answer:
                    computed_s = time()
                    outputs = [
                        WireTensor(
                            name=output.name,
                            datatype=DATATYPES[output.tensor.dtype],
                            shape=output.tensor.shape,
                            data=b"".join([chunk async for chunk in output.chunks]),
                        )
                        for output in answer.outputs
                        if output.name in names
                    ]
        except OpserveError:
            counts.failed(time() - began_s)
            raise
        counts.succeeded(computed_s - began_s, time() - computed_s)
        return InferAnswer(model=model, outputs=outputs, warnings=answer.warnings)


def _one_shot(model: Model, call: InferCall, limit: int) -> tuple[OneShotCall, Sequence[str]]:
    """The whole call, and the names of the outputs that its answer has."""
    given = call.parameters
    _check_parameters(model, given)
    attributes = {name: given[name] for name in given if name in model.attributes}
    arrays: dict[str, NDArray[Any]] = {}
    datatypes: dict[str, DataType] = {}
    for tensor in _inputs(model, call):
        name = tensor.name
        if name in model.ranks:
            arrays[name], datatypes[name] = _array(model, tensor), OF_DATATYPE[tensor.datatype]
        else:
            attributes[name] = attribute_value(tensor, model.parameters[name].kind)
    names = _outputs(model, call)
    if _MASK in model.attributes and _MASK not in attributes:
        attributes[_MASK] = [name in names for name in model.operator.outputs]
    schema: type = model.operator.schema
    values = {
        name: attribute(model.parameters[name], value, schema) for name, value in attributes.items()
    }
    choices = {
        name: TensorChoice(
            array=name if name in arrays else None,
            dtype=datatypes.get(name) or _member(given, f"{_DTYPE_OF}{name}", OF_DATATYPE),
            format=_member(given, f"{_FORMAT_OF}{name}", Format.__members__),
        )
        for name in model.ranks
        if name in arrays or name in model.operator.outputs
    }
    one_shot = OneShotCall(
        session=_session(given),
        operator=model.operator,
        arguments={**values, **choices},
        arrays=arrays,
        output_bytes_limit=limit,
    )
    return one_shot, names


def _check_parameters(model: Model, given: Mapping[str, object]) -> None:
    if len(given) > PARAMETERS_LIMIT:
        shown = f"{len(given)} parameters"
        raise malformed("parameters", given=shown, allowed=f"at most {PARAMETERS_LIMIT}")
    known = _parameters_of(model)
    for name in given:
        if name.startswith(_SEQUENCE):
            raise no_sequences()
        if name not in known and name not in _IGNORED and not name.startswith(_IGNORED_PREFIX):
            allowed = choices_shortened(", ".join(known))
            raise malformed("parameters", given=name[:64], allowed=allowed)


def _parameters_of(model: Model) -> Collection[str]:
    dtypes = [f"{_DTYPE_OF}{output}" for output in model.operator.outputs]
    formats = [f"{_FORMAT_OF}{tensor}" for tensor in model.ranks]
    return (*model.attributes, *SESSION_PARAMETERS, *dtypes, *formats)


def _session(given: Mapping[str, object]) -> SessionRequest:
    """The session; the protocol's timeout, in microseconds, bounds the wait for a device."""
    timeout, wait_us = given.get("timeout"), _WAIT_US
    if isinstance(timeout, int) and timeout > 0:
        wait_us = min(timeout, _WAIT_US)
    profile, accuracy, rules = (_text(name, given.get(name, "")) for name in SESSION_PARAMETERS)
    return SessionRequest(
        profile=profile,
        accuracy=accuracy,
        documented_rules=rules,
        wait_s=wait_us / _US_PER_S,
    )


def _member(given: Mapping[str, object], name: str, known: Mapping[str, ChoiceT]) -> ChoiceT | None:
    if name not in given:
        return None
    text = _text(name, given[name])
    if text not in known:
        raise malformed(name, given=text, allowed=", ".join(known))
    return known[text]


def _inputs(model: Model, call: InferCall) -> Sequence[WireTensor]:
    """The inputs, each of which the model has, once."""
    known = [tensor.name for tensor in model.inputs]
    if len(call.inputs) > len(known):
        shown = f"{len(call.inputs)} tensors"
        raise malformed("inputs", given=shown, allowed=f"at most {len(known)}")
    names = [tensor.name for tensor in call.inputs]
    for name in names:
        if name not in known:
            raise malformed("inputs", given=name[:64], allowed=", ".join(known))
        if names.count(name) > 1 or name in call.parameters:
            raise malformed(name, given="two values", allowed="a parameter or one input")
    return call.inputs


def _array(model: Model, tensor: WireTensor) -> NDArray[Any]:
    rank = model.ranks[tensor.name]
    if tensor.datatype not in OF_DATATYPE:
        raise malformed(tensor.name, given=tensor.datatype[:64], allowed=", ".join(OF_DATATYPE))
    if len(tensor.shape) != rank:
        given = f"{len(tensor.shape)} dimensions"
        raise malformed(tensor.name, given=given, allowed=f"{rank} in the model {model.name}")
    return array_of(tensor)


def _outputs(model: Model, call: InferCall) -> Sequence[str]:
    names = model.operator.outputs
    if len(call.outputs) > len(names):
        given = f"{len(call.outputs)} outputs"
        raise malformed("outputs", given=given, allowed=", ".join(names))
    for name in call.outputs:
        if name not in names:
            raise malformed("outputs", given=name[:64], allowed=", ".join(names))
    return call.outputs or names


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > TEXT_CHARACTERS:
        shown = value[:64] if isinstance(value, str) else type(value).__name__
        allowed = f"a text of at most {TEXT_CHARACTERS} characters"
        raise malformed(name, given=shown, allowed=allowed)
    return value
