"""Models: an operator with a number of dimensions for each of its tensors."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from opserve_kernels.description import Parameter, describe
from opserve_kernels.errors import choices_shortened
from opserve_kernels.operator import Operator
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import DataType
from opserve_server.core.errors import HandleNotFound

DATATYPES: Mapping[DataType, str] = {
    DataType.FLOAT: "FP32",
    DataType.FLOAT16: "FP16",
    DataType.BF16: "BF16",
    DataType.DOUBLE: "FP64",
}
"""The protocol's names of the dtypes of tensors."""
ANY_SIZE = -1
_ATTRIBUTES: Mapping[str, tuple[str, int]] = {
    "integer": ("INT64", 1),
    "integers": ("INT64", ANY_SIZE),
    "boolean": ("BOOL", 1),
    "booleans": ("BOOL", ANY_SIZE),
}
"""Datatype and size of an attribute as an input; texts and groups of members are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMetadata:
    """A tensor of a model.

    Attributes:
        name: Its name.
        datatype: One of the datatypes that it may have.
        shape: Its shape; -1 is any size.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model.

    Attributes:
        name: Its name.
        operator: Its operator.
        ranks: Numbers of dimensions of its tensors.
    """

    name: str
    operator: Operator[Any]
    ranks: Mapping[str, int]

    @property
    def version(self) -> str:
        """Its only version: the revision of the operator's contract."""
        return str(self.operator.revision)

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The arguments of the operator by name."""
        return {parameter.name: parameter for parameter in describe(self.operator).parameters}

    @cached_property
    def attributes(self) -> Collection[str]:
        """Names of the arguments that are no tensors."""
        return self.parameters.keys() - self.ranks.keys()

    @cached_property
    def inputs(self) -> tuple[TensorMetadata, ...]:
        """The tensors, and attributes that may be tensors, that a call may have."""
        return tuple(self._inputs())

    @cached_property
    def outputs(self) -> tuple[TensorMetadata, ...]:
        """The tensors of its answer."""
        return tuple(map(self._tensor, self.operator.outputs))

    def _inputs(self) -> Iterator[TensorMetadata]:
        for name, parameter in self.parameters.items():
            if name in self.ranks and not parameter.written:
                yield self._tensor(name)
            elif parameter.kind in _ATTRIBUTES:
                datatype, size = _ATTRIBUTES[parameter.kind]
                yield TensorMetadata(name=name, datatype=datatype, shape=(size,))

    def _tensor(self, name: str) -> TensorMetadata:
        dtypes = next(iter(self.operator.support.values())).dtypes
        shape = (ANY_SIZE,) * self.ranks[name]
        return TensorMetadata(name=name, datatype=DATATYPES[dtypes[0]], shape=shape)


def _models(operator: Operator[Any]) -> Iterator[Model]:
    for form, ranks in operator.ranks.items():
        name = f"{operator.call}_{form}" if form else operator.call
        named = dict(zip(operator.tensor_fields, ranks, strict=True))
        yield Model(name=name, operator=operator, ranks=named)


MODELS: Mapping[str, Model] = {
    model.name: model for operator in OPERATORS.values() for model in _models(operator)
}
"""Every model by name."""


def model_named(name: str, version: str) -> Model:
    """The model of a name; an empty version is its only one.

    Raises:
        HandleNotFound: 107017, there is no such model or version.
    """
    model = MODELS.get(name)
    if model is None:
        raise HandleNotFound(
            "model",
            name[:64],
            allowed=choices_shortened(", ".join(MODELS)),
            message=f"Request for unknown model: '{name[:64]}' is not found.",
        )
    if version not in {"", model.version}:
        raise HandleNotFound(
            "version",
            version[:64],
            allowed=model.version,
            message=f"Request for unknown model: '{name}' version {version[:64]} is not found.",
        )
    return model
