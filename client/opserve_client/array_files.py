"""Conversion of arrays to the bytes of an .npz file and back; BF16 is stored as uint16 bits."""

import io
import zlib
from collections.abc import Mapping
from zipfile import BadZipFile

import numpy as np

from opserve_client.arguments import array
from opserve_client.errors import malformed_answer
from opserve_client.tensors import Array
from opserve_kernels.array_like import ArrayLike
from opserve_kernels.tensor import NUMPY_DTYPES, DataType


def plain(arrays: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Returns the arrays as a file stores them.

    Raises:
        AclnnError: 161002, a value is no array, or has elements that opserve does not have.
    """
    return {name: _plain(name, array) for name, array in arrays.items()}


def packed(arrays: Mapping[str, Array]) -> memoryview:
    """Returns the bytes of an .npz file of plain arrays."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return memoryview(file.getvalue())


def unpacked(data: bytes) -> dict[str, Array]:
    """Returns the arrays of an .npz file that a service sent."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}
    except (BadZipFile, EOFError, ValueError, OSError, zlib.error) as error:
        raise malformed_answer(f"the answer is no .npz file: {error}") from error


def _plain(name: str, value: ArrayLike) -> Array:
    given = array(value, parameter=name)
    return given.view(np.uint16) if given.dtype == NUMPY_DTYPES[DataType.BF16] else given
