"""Arrays of other libraries, lists and numbers as NumPy arrays."""

import sys
from typing import Any, Protocol, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike as NumpyArrayLike
from numpy.typing import NDArray

_NO_NUMBERS = "OSU"
"""Kinds of NumPy's dtypes for objects and texts."""


class SupportsDlpack(Protocol):
    """An array of a library that exports DLPack; the client reads host memory."""

    def __dlpack__(self, *, stream: None = None) -> Any:  # noqa: ANN401  a capsule, a C object
        """Exports the array."""
        ...

    def __dlpack_device__(self) -> tuple[Any, int]:
        """Returns the kind of memory, 1 for the host's, and the device's number."""
        ...


class SupportsArray(Protocol):
    """An array of a library that NumPy reads."""

    def __array__(self) -> NDArray[Any]:
        """Returns the array as NumPy's."""
        ...


ArrayLike: TypeAlias = "NumpyArrayLike | SupportsDlpack"
"""A NumPy array, an object with `__array__` or `__dlpack__`, a buffer, or numbers in lists."""


def is_array(value: object) -> bool:
    """Returns whether a value is an array of any library."""
    # Of the class: a class of NumPy's scalars has the methods of its values.
    return hasattr(type(value), "__array__") or hasattr(type(value), "__dlpack__")


def as_array(value: object) -> NDArray[Any]:
    """Returns a value as a NumPy array, of the same memory where its library allows it.

    Numbers in lists have NumPy's dtypes: DOUBLE for floats, INT64 for integers.

    Raises:
        TypeError: The value is no array, or NumPy cannot read its memory; the message names its
            class and the reason.
    """
    try:
        array = _bfloat16_of_torch(value)
        if array is None:
            only_dlpack = is_array(value) and not hasattr(type(value), "__array__")
            array = np.from_dlpack(value) if only_dlpack else np.asarray(value)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  just checked
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{type(value).__name__} ({error})") from error
    if array.dtype.kind in _NO_NUMBERS and not is_array(value):
        raise TypeError(type(value).__name__)
    return array


def bytes_of(array: NDArray[Any]) -> memoryview:
    """Returns the elements of an array in row-major order, copied only from another order.

    Raises:
        TypeError: The elements are objects.
    """
    native = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
    return native.reshape(-1).view(np.uint8).data


def _bfloat16_of_torch(value: object) -> NDArray[Any] | None:
    """Returns a BF16 tensor of PyTorch, which neither `__array__` nor DLPack brings to NumPy."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    tensor: Any = value
    if tensor.dtype is not torch.bfloat16 or tensor.requires_grad:
        return None
    bits: NDArray[Any] = np.asarray(tensor.view(torch.int16))
    elements: NDArray[Any] = bits.view(ml_dtypes.bfloat16)
    return elements
