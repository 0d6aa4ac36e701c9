"""What a conformance case is: one call, how its inputs are filled, and what must come of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from hashlib import sha256
from math import prod
from typing import cast

from opserve_kernels.operators import outputs_of
from opserve_kernels.tensor import DataType, Format, Tensor

PASS = "PASS"  # noqa: S105  # what a call is expected to do
ID_DIGITS = 16  # hexadecimal: 64 bits of a digest

Value = bool | int | str | tuple[int, ...] | Mapping[str, "Value"]
"""An argument that is no tensor; booleans of a mask are a tuple too."""
Json = dict[str, object]


class Kind(StrEnum):
    """How the elements of an input are drawn, by docs/reference/conformance-cases.md."""

    INTEGER = "integer"
    UNIFORM = "uniform"
    NORMAL = "normal"
    OFFSET = "offset"
    TINY = "tiny"
    OUTLIERS = "outliers"
    SPECIAL = "special"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """What an input holds.

    Attributes:
        kind: How elements are drawn.
        bound: Of INTEGER: elements are -bound .. bound.
        thinning: Of INTEGER: one element of 2**thinning is kept, the others are 0.
        plain: Of NC1HWC0, the sizes N, C, H, W that it holds; of FRACTAL_Z, Cout, Cin/groups, KH,
            KW. What belongs to none of them is 0.
        groups: Of FRACTAL_Z: groups of channels.
    """

    kind: Kind = Kind.INTEGER
    bound: int = 0
    thinning: int = 0
    plain: tuple[int, ...] | None = None
    groups: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorCase:
    """A tensor of a case, as aclCreateTensor describes it.

    Attributes:
        shape: View dimensions.
        dtype: Element type.
        format: Meaning of the dimensions.
        strides: Elements between neighbours, by dimension; None means contiguous.
        offset: Elements from the start of the storage to the first of the view.
        storage_shape: Dimensions of the storage; None means that it ends where the view does.
        fill: What an input holds; None for an output.
    """

    shape: tuple[int, ...]
    dtype: DataType
    format: Format = Format.ND
    strides: tuple[int, ...] | None = None
    offset: int = 0
    storage_shape: tuple[int, ...] | None = None
    fill: Fill | None = None

    def tensor(self, *, buffer: int = 0) -> Tensor:
        """The schema's tensor in a buffer."""
        return Tensor(
            shape=self.shape,
            dtype=self.dtype,
            format=self.format,
            strides=self.strides,
            offset=self.offset,
            storage_shape=self.storage_shape,
            buffer=buffer,
        )

    @property
    def storage_elements(self) -> int:
        """Elements of the storage, gaps and all."""
        return self.tensor().end if self.storage_shape is None else prod(self.storage_shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A call of an operator on a profile.

    Attributes:
        operator: Its name, one of OPERATOR_NAMES.
        profile: Of the device that runs it.
        tensors: By argument of the schema; one that is not here is a null pointer.
        arguments: The others, likewise; members of a para_dict are a mapping.
        expect: PASS, or the name of the status that the call must be refused with.
        tags: What it covers, for people and for selection; no part of the id.
        source: Where it comes from; no part of the id.
        id: The operator, the profile and a digest of all that the call is made of.
    """

    operator: str
    profile: str
    tensors: Mapping[str, TensorCase]
    arguments: Mapping[str, Value]
    expect: str = PASS
    tags: tuple[str, ...] = ()
    source: str = ""
    id: str = field(init=False)

    def __post_init__(self) -> None:
        """Makes the id."""
        digest = sha256(canonical(_content(self)).encode()).hexdigest()[:ID_DIGITS]
        object.__setattr__(self, "id", f"{self.operator}.{self.profile}.{digest}")

    @property
    def is_refused(self) -> bool:
        """Whether the call must be refused: its tensors may then be too large to exist."""
        return self.expect != PASS

    @property
    def output_names(self) -> tuple[str, ...]:
        """The tensors that the operator writes, in the schema's order."""
        return outputs_of(self.operator)

    @property
    def inputs(self) -> Mapping[str, TensorCase]:
        """The tensors that the call reads."""
        written = self.output_names
        return {name: tensor for name, tensor in self.tensors.items() if name not in written}

    @property
    def outputs(self) -> Mapping[str, TensorCase]:
        """The output tensors that are given, masked or not."""
        written = self.output_names
        return {name: tensor for name, tensor in self.tensors.items() if name in written}

    @property
    def written(self) -> tuple[str, ...]:
        """The outputs that the call writes: output_mask may leave some out."""
        names = self.output_names
        mask = self.arguments.get("output_mask")
        wanted = mask if isinstance(mask, tuple) else (True,) * len(names)
        return tuple(
            name for name, flag in zip(names, wanted, strict=False) if flag and name in self.tensors
        )

    @property
    def kind(self) -> Kind:
        """How the inputs are drawn: as the first one."""
        return next(
            (tensor.fill.kind for tensor in self.inputs.values() if tensor.fill), Kind.INTEGER
        )

    def to_json(self) -> Json:
        """The case as a line of a suite has it; what is left at its default is left out."""
        about: Json = {"id": self.id}
        if self.tags:
            about["tags"] = list(self.tags)
        if self.source:
            about["source"] = self.source
        return about | _content(self)


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces, ASCII only: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _content(case: Case) -> Json:
    """All that the id is made of."""
    content: Json = {
        "operator": case.operator,
        "profile": case.profile,
        "tensors": {name: _changed(tensor) for name, tensor in case.tensors.items()},
        "arguments": {name: _plain(value) for name, value in case.arguments.items()},
    }
    return content | ({"expect": case.expect} if case.is_refused else {})


def _changed(value: TensorCase | Fill) -> Json:
    """The members that are not at their default."""
    found: Json = {}
    for member in fields(value):
        given: object = getattr(value, member.name)
        if isinstance(given, Fill):
            found[member.name] = _changed(given)
        elif given != member.default or member.name == "kind":
            is_row = isinstance(given, tuple)
            found[member.name] = list(cast("tuple[int, ...]", given)) if is_row else given
    return found


def _plain(value: Value) -> object:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    return value
