"""Conformance cases: a call, the fills of its inputs, and the required result."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from hashlib import sha256
from math import prod
from typing import cast

from opserve_kernels.operators import outputs_of
from opserve_kernels.tensor import DataType, Format, Tensor

PASS = "PASS"  # noqa: S105  # the expected result of a call that succeeds
ID_DIGITS = 16  # hexadecimal: 64 bits of a digest

Value = bool | int | str | tuple[int, ...] | Mapping[str, "Value"]
"""An argument that is no tensor; booleans of a mask are a tuple too."""
Json = dict[str, object]


class Kind(StrEnum):
    """Kinds of random elements of an input; docs/reference/conformance-cases.md defines them."""

    INTEGER = "integer"
    UNIFORM = "uniform"
    NORMAL = "normal"
    OFFSET = "offset"
    TINY = "tiny"
    OUTLIERS = "outliers"
    SPECIAL = "special"
    RECORDED = "recorded"


DRAWN_KINDS = tuple(kind for kind in Kind if kind is not Kind.RECORDED)
"""Kinds whose elements follow from the case and the seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """The contents of an input.

    Attributes:
        kind: Kind of the elements.
        bound: For INTEGER: elements are -bound .. bound.
        thinning: For INTEGER: one element of 2**thinning is kept, the others are 0.
        plain: For NC1HWC0, the sizes N, C, H, W of its image; for FRACTAL_Z, Cout, Cin/groups, KH,
            KW. Elements outside them are 0.
        groups: For FRACTAL_Z: groups of channels.
        digest: For RECORDED: "sha256:" and the digest of the elements' bytes, in order.
    """

    kind: Kind = Kind.INTEGER
    bound: int = 0
    thinning: int = 0
    plain: tuple[int, ...] | None = None
    groups: int = 1
    digest: str = ""


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
        fill: Contents of an input; None for an output.
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
        """Elements of the storage, with gaps."""
        return self.tensor().end if self.storage_shape is None else prod(self.storage_shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A call of an operator on a profile.

    Attributes:
        operator: Its name, one of OPERATOR_NAMES.
        profile: Profile of the device that runs it.
        tensors: Tensors by argument of the schema; a missing one is a null pointer.
        arguments: The other arguments, likewise; members of a para_dict are a mapping.
        expect: PASS, or the name of the status that must reject the call.
        tags: Features that it covers, for readers and for selection; not in the id.
        source: Its origin; not in the id.
        id: The operator, the profile and a digest of the whole call.
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
        """Whether the call must be rejected: its tensors may then be too large to exist."""
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
        """The kind of the first input, which is that of all."""
        return next(
            (tensor.fill.kind for tensor in self.inputs.values() if tensor.fill), Kind.INTEGER
        )

    def to_json(self) -> Json:
        """The case as a line of a suite, without members that have their default."""
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
    """The content that the id is a digest of."""
    content: Json = {
        "operator": case.operator,
        "profile": case.profile,
        "tensors": {name: _changed(tensor) for name, tensor in case.tensors.items()},
        "arguments": {name: _plain(value) for name, value in case.arguments.items()},
    }
    return content | ({"expect": case.expect} if case.is_refused else {})


def _changed(value: TensorCase | Fill) -> Json:
    """The members that differ from their defaults."""
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
