"""Tensors of the TBE DSL: placeholders with their elements, and results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import override

from opserve_client.arguments import array, int64s, shown, string
from opserve_client.errors import OpserveError, invalid_argument
from opserve_client.tensors import Array
from opserve_kernels.array_like import ArrayLike
from opserve_kernels.status import TbeStatus
from opserve_kernels.tensor import NUMPY_DTYPES, SPELLED

_DTYPES: Mapping[str, np.dtype[Any]] = {
    name: NUMPY_DTYPES[dtype] for name, dtype in SPELLED.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceholderOp:
    """The origin of a placeholder."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeOp:
    """The origin of a result: a call that has run."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Tensor:
    """A tensor with its elements, which np.asarray(tensor) also returns.

    Attributes:
        op: Origin of the tensor.
        elements: The elements, in the vendor's shape.
    """

    op: PlaceholderOp | ComputeOp
    elements: Array

    @property
    def name(self) -> str:
        """Name of the placeholder, or of the call that returned the result."""
        return self.op.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Dimensions."""
        return self.elements.shape

    @property
    def dtype(self) -> str:
        """Element type in TVM's spelling, such as "float16"."""
        return self.elements.dtype.name

    @override
    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"

    def numpy(self) -> Array:
        """Returns the elements."""
        return self.elements

    def __array__(self, dtype: np.dtype[Any] | None = None, copy: bool | None = None) -> Array:  # noqa: FBT001  NumPy's protocol
        return np.array(self.elements, dtype=dtype, copy=copy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholders:
    """The function tvm.placeholder and its data.

    Attributes:
        data: Elements of the placeholders, by name.
    """

    data: Mapping[str, ArrayLike]

    def placeholder(
        self, shape: Sequence[int], dtype: str = "float32", name: str = "placeholder"
    ) -> Tensor:
        """Returns a tensor with the elements data[name], which must have that shape and dtype.

        Args:
            shape: Dimensions.
            dtype: "float16", "float32", "bfloat16", or "float64" for `reference`.
            name: Name of the elements in the data.

        Raises:
            TbeError: E60038, the data has no such name, its elements have another shape or dtype,
                or the dtype is not supported.
        """
        dimensions = int64s(shape, parameter="shape", status=TbeStatus.E60038)
        if string(dtype, parameter="dtype", status=TbeStatus.E60038) not in _DTYPES:
            raise _rejection("dtype", shown(dtype), " or ".join(_DTYPES))
        if string(name, parameter="name", status=TbeStatus.E60038) not in self.data:
            names = ", ".join(map(shown, self.data)) or "none: the data is empty"
            raise _rejection("name", shown(name), f"a name in the data: {names}")
        parameter = f"data[{shown(name)}]"
        elements = _elements(self.data[name], dimensions, _DTYPES[dtype], parameter=parameter)
        return Tensor(op=PlaceholderOp(name=name), elements=elements)


def placeholder_elements(value: object, *, parameter: str) -> Array:
    """Returns the elements of a placeholder.

    Raises:
        TbeError: E60038, the value is no placeholder. The vendor forbids the result of another
            call, too.
    """
    allowed = "a tensor of tvm.placeholder"
    if not isinstance(value, Tensor):
        raise _rejection(parameter, type(value).__name__, allowed)
    if isinstance(value.op, ComputeOp):
        hint = "to use it, install() the result's numpy() as data of a placeholder"
        raise _rejection(parameter, f"the result of dsl.{value.name}", f"{allowed}: {hint}")
    return value.elements


def _elements(
    value: object, shape: tuple[int, ...], dtype: np.dtype[Any], *, parameter: str
) -> Array:
    allowed = f"an array of {dtype.name} {list(shape)}, as declared by its placeholder"
    given = array(value, parameter=parameter, allowed=allowed, status=TbeStatus.E60038)
    if given.shape != shape or given.dtype.newbyteorder("=") != dtype:
        raise _rejection(parameter, f"{given.dtype.name} {list(given.shape)}", allowed)
    return given


def _rejection(parameter: str, given: str, allowed: str) -> OpserveError:
    return invalid_argument(parameter, given, allowed, status=TbeStatus.E60038)
