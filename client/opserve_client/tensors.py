"""Tensors of a call, and the layout of their elements in a buffer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeIs

from opserve.v1 import tensor_pb2
from opserve_client.arguments import unsigned
from opserve_client.data_types import (
    DTypeLike,
    data_type_of,
    data_type_on_wire,
    format_on_wire,
    numpy_dtype,
)
from opserve_client.errors import invalid_argument
from opserve_kernels.array_like import ArrayLike
from opserve_kernels.tensor import Format, Tensor

Array: TypeAlias = NDArray[Any]
TensorSpec: TypeAlias = Tensor
"""A strided view of elements in a buffer: the class of the kernels."""


class DeviceTensor(Protocol):
    """A tensor in device memory: the client's Tensor or AsyncTensor."""

    @property
    def spec(self) -> TensorSpec:
        """Shape, dtype, format and place."""
        ...

    @property
    def format_follows_call(self) -> bool:
        """Whether the format is a default, which a call replaces by the format of its arrays."""
        ...

    @property
    def owner(self) -> object:
        """The calls of its session."""
        ...


class DeviceBuffer(Protocol):
    """Device memory: the client's Buffer or AsyncBuffer."""

    @property
    def handle(self) -> int:
        """Handle within the session."""
        ...

    @property
    def size_bytes(self) -> int:
        """Size in bytes."""
        ...

    @property
    def owner(self) -> object:
        """The calls of its session."""
        ...


def is_device_tensor(value: object) -> TypeIs[DeviceTensor]:
    """Returns whether a value is the client's tensor; `isinstance` of a protocol takes 10 µs."""
    return hasattr(value, "format_follows_call")


def is_device_buffer(value: object) -> TypeIs[DeviceBuffer]:
    """Returns whether a value is the client's buffer."""
    return hasattr(value, "handle") and hasattr(value, "size_bytes")


TensorArgument: TypeAlias = "ArrayLike | DeviceTensor | None"
OutputArgument: TypeAlias = "TensorArgument | DTypeLike"


def rank_of(value: object) -> int | None:
    """Returns the number of dimensions of a NumPy array or a tensor on a device; None of others."""
    if is_device_tensor(value):
        return value.spec.rank
    return cast("Array", value).ndim if isinstance(value, np.ndarray) else None


def spec_of(
    value: "Array | DeviceTensor | None", *, formats: Mapping[int, Format]
) -> TensorSpec | None:
    """Returns the tensor of an argument on a device; None for a null pointer.

    Args:
        value: The argument.
        formats: Formats of arrays by number of dimensions; ND elsewhere.
    """
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        format_ = formats.get(value.ndim, Format.ND)
        return TensorSpec(shape=value.shape, dtype=data_type_of(value.dtype), format=format_)
    spec = value.spec
    if not value.format_follows_call:
        return spec
    return replace(spec, format=formats.get(spec.rank, Format.ND))


def start_bytes(spec: TensorSpec) -> int:
    """Returns the bytes from the start of the buffer to the first element.

    Raises:
        AclrtError: 107000, the offset is negative or above 64 bits.
    """
    return unsigned(spec.offset * numpy_dtype(spec.dtype).itemsize, parameter="offset")


def span_bytes(spec: TensorSpec) -> int:
    """Returns the bytes from the first element of the view to the end of its last one.

    Raises:
        AclnnError: 161002, a dimension or stride is negative, or the numbers of strides and
            dimensions differ.
    """
    if min(spec.shape, default=0) < 0:
        raise invalid_argument("shape", str(list(spec.shape)), "dimensions of at least 0")
    if spec.strides is not None and (
        len(spec.strides) != spec.rank or min(spec.strides, default=0) < 0
    ):
        allowed = f"{spec.rank} strides of at least 0"
        raise invalid_argument("strides", str(list(spec.strides)), allowed)
    return (spec.end - spec.offset) * numpy_dtype(spec.dtype).itemsize


def view_of(spec: TensorSpec, span: bytearray | memoryview) -> Array:
    """Returns the elements as an array over the bytes of the span, without a copy."""
    dtype = numpy_dtype(spec.dtype)
    strides = spec.strides and tuple(stride * dtype.itemsize for stride in spec.strides)
    return np.ndarray(spec.shape, dtype, buffer=span, strides=strides)


def elements_of(spec: TensorSpec, span: bytearray | memoryview) -> Array:
    """Returns the elements as an array without gaps: over the bytes of the span, or a copy."""
    view = view_of(spec, span)
    return view if spec.strides is None else view.copy()


def message_of(spec: TensorSpec) -> tensor_pb2.Tensor:
    """Returns the message of a tensor."""
    return tensor_pb2.Tensor(
        shape=spec.shape,
        dtype=data_type_on_wire(spec.dtype),
        format=format_on_wire(spec.format),
        strides=_int64_array(spec.strides),
        offset=spec.offset,
        storage_shape=_int64_array(spec.storage_shape),
        buffer=spec.buffer,
    )


def _int64_array(values: Sequence[int] | None) -> tensor_pb2.Int64Array | None:
    """An aclIntArray; None for a null pointer."""
    return None if values is None else tensor_pb2.Int64Array(values=values)
