"""Tensors of the TBE DSL's spelling: placeholders that have their data already, and results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from typing_extensions import override

from opserve_client.arguments import int64s, shown, string
from opserve_client.errors import OpserveError, invalid_argument
from opserve_client.tensors import Array
from opserve_kernels.status import TbeStatus
from opserve_kernels.tensor import NUMPY_DTYPES, SPELLED

_DTYPES: Mapping[str, np.dtype[Any]] = {
    name: NUMPY_DTYPES[dtype] for name, dtype in SPELLED.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceholderOp:
    """What a placeholder comes from."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeOp:
    """What a result comes from: a call that has run."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Tensor:
    """A tensor with its elements; np.asarray(tensor) gives them too.

    Attributes:
        op: What it comes from.
        elements: The elements, in the vendor's shape.
    """

    op: PlaceholderOp | ComputeOp
    elements: Array

    @property
    def name(self) -> str:
        """The name that the placeholder was given, or that of a result."""
        return self.op.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions."""
        return self.elements.shape

    @property
    def dtype(self) -> str:
        """Element type as TVM spells it, such as "float16"."""
        return self.elements.dtype.name

    @override
    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"

    def numpy(self) -> Array:
        """The elements."""
        return self.elements

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> Array:  # noqa: FBT001  NumPy's protocol
        return np.array(self.elements, dtype=dtype, copy=copy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholders:
    """Makes placeholders.

    Attributes:
        data: Their elements, by name.
    """

    data: Mapping[str, Array]

    def placeholder(
        self, shape: Sequence[int], dtype: str = "float32", name: str = "placeholder"
    ) -> Tensor:
        """A tensor that stands for data[name], which must have that shape and dtype.

        Args:
            shape: Dimensions.
            dtype: "float16", "float32", "bfloat16", or "float64" for `reference`.
            name: Its name in the data.

        Raises:
            TbeError: E60038, no such data, data of another shape or dtype, or another dtype.
        """
        dimensions = int64s(shape, parameter="shape", status=TbeStatus.E60038)
        if string(dtype, parameter="dtype", status=TbeStatus.E60038) not in _DTYPES:
            raise _refusal("dtype", shown(dtype), " or ".join(_DTYPES))
        if string(name, parameter="name", status=TbeStatus.E60038) not in self.data:
            names = ", ".join(map(shown, self.data)) or "none: the data is empty"
            raise _refusal("name", shown(name), f"a name in the data: {names}")
        elements = self.data[name]
        _check_elements(elements, dimensions, _DTYPES[dtype], parameter=f"data[{shown(name)}]")
        return Tensor(op=PlaceholderOp(name=name), elements=elements)


def placeholder_elements(value: object, *, parameter: str) -> Array:
    """The elements of a placeholder.

    Raises:
        TbeError: E60038, it is none, or the result of another call, which the vendor forbids to
            mix with.
    """
    allowed = "a tensor of tvm.placeholder"
    if not isinstance(value, Tensor):
        raise _refusal(parameter, type(value).__name__, allowed)
    if isinstance(value.op, ComputeOp):
        hint = "install() with the result's numpy() as data of a placeholder to go on with it"
        raise _refusal(parameter, f"the result of dsl.{value.name}", f"{allowed}: {hint}")
    return value.elements


def _check_elements(
    elements: object, shape: tuple[int, ...], dtype: np.dtype[Any], *, parameter: str
) -> None:
    allowed = f"a NumPy array of {dtype.name} {list(shape)}, as its placeholder says"
    if not isinstance(elements, np.ndarray):
        raise _refusal(parameter, type(elements).__name__, allowed)
    given = cast("Array", elements)  # of what elements, is seen next
    if given.shape != shape or given.dtype.newbyteorder("=") != dtype:
        raise _refusal(parameter, f"{given.dtype.name} {list(given.shape)}", allowed)


def _refusal(parameter: str, given: str, allowed: str) -> OpserveError:
    return invalid_argument(parameter, given, allowed, status=TbeStatus.E60038)
