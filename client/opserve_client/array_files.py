"""Conversion of arrays to the bytes of an .npz file and back; BF16 is stored as uint16 bits."""

import io
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import cast
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile

from opserve_client.arguments import array
from opserve_client.errors import malformed_answer
from opserve_client.tensors import Array
from opserve_kernels.array_like import ArrayLike
from opserve_kernels.tensor import NUMPY_DTYPES, DataType

_MARKS = (b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY")
"""First bytes of .npz files, of those without members, and of .npy files."""
_MARK_BYTES = 6


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


def read_arrays(path: Path) -> dict[str, Array] | Array:
    """Reads the arrays of an .npz file by name, or the array of an .npy file; no pickles.

    Raises:
        ValueError: The file is neither, or has other members than arrays of numbers.
        OSError: The file cannot be opened.
    """
    with path.open("rb") as file:
        if not file.read(_MARK_BYTES).startswith(_MARKS):
            raise ValueError(
                f"{path} is no .npz or .npy file, whatever its name: write it with numpy.savez or "
                "numpy.save."
            )
        file.seek(0)
        try:
            loaded: Array | NpzFile = np.load(file, allow_pickle=False)
            if isinstance(loaded, NpzFile):
                return {name: _checked(loaded[name]) for name in loaded.files}
        except (BadZipFile, EOFError, OSError, ValueError, zlib.error) as error:
            raise ValueError(
                f"{path} cannot be read: it is damaged or has Python objects; save arrays of "
                "numbers."
            ) from error
    return loaded


def _checked(member: object) -> Array:
    """Returns a member of a file; np.load returns those that are no arrays as bytes."""
    if not isinstance(member, np.ndarray):
        raise ValueError("no array")  # noqa: TRY004  as of np.load
    return cast("Array", member)


def _plain(name: str, value: ArrayLike) -> Array:
    given = array(value, parameter=name)
    return given.view(np.uint16) if given.dtype == NUMPY_DTYPES[DataType.BF16] else given
