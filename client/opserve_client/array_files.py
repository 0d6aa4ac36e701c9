"""Arrays as the bytes of an .npz file, and back; bits of BF16 are uint16 there."""

import io
import zlib
from collections.abc import Mapping
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike

from opserve_client.errors import incomprehensible
from opserve_client.tensors import Array
from opserve_kernels.tensor import NUMPY_DTYPES, DataType


def plain(arrays: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """The arrays as a file has them."""
    return {name: _plain(array) for name, array in arrays.items()}


def packed(arrays: Mapping[str, Array]) -> memoryview:
    """The file of plain arrays."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return memoryview(file.getvalue())


def unpacked(data: bytes) -> dict[str, Array]:
    """The arrays of a file that a service sent."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}
    except (BadZipFile, EOFError, ValueError, OSError, zlib.error) as error:
        raise incomprehensible(f"no .npz came: {error}") from error


def _plain(array: ArrayLike) -> Array:
    given = np.asarray(array)
    return given.view(np.uint16) if given.dtype == NUMPY_DTYPES[DataType.BF16] else given
