"""Tensors in files of torch.save, read without torch and without unpickling.

Such a file is a ZIP archive: data.pkl describes the tensor, data/KEY has the bytes of its storage.
The description is a pickle of a few operations. They are interpreted as data here: no name in them
is imported and no function called, so a file cannot run code.
"""

import pickletools
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import cast
from zipfile import BadZipFile, ZipFile

import numpy as np

from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.readers.read import Inexpressible
from opserve_kernels.tensor import NUMPY_DTYPES, DataType

_DESCRIPTION_BYTES_LIMIT = 1 << 16
_STORAGES: Mapping[str, DataType] = {
    "torch FloatStorage": DataType.FLOAT,
    "torch HalfStorage": DataType.FLOAT16,
    "torch BFloat16Storage": DataType.BF16,
    "torch DoubleStorage": DataType.DOUBLE,
}
_TENSORS = ("torch._utils _rebuild_tensor_v2", "torch_npu.utils.storage _rebuild_npu_tensor")
"""Functions of (storage, offset, sizes, strides, ...) that a description names for a tensor."""
_NPU_FORMAT, _PLAIN_FORMATS = 6, (True, False, -1, 0, 2)  # place and values: undefined, NCHW, ND
_LENGTHS = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_CONSTANTS = {"NEWTRUE": True, "NEWFALSE": False, "NONE": None}
_LITERALS = {"BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1"}
_PUTS, _GETS = {"BINPUT", "LONG_BINPUT"}, {"BINGET", "LONG_BINGET"}
_IGNORED = {"PROTO", "FRAME", "STOP"}


@dataclass(frozen=True, slots=True)
class _Name:
    """A name of a module that a description refers to."""

    text: str


@dataclass(frozen=True, slots=True)
class _Stored:
    """A reference to a storage: ("storage", its class, its key, its device, its elements)."""

    reference: object


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that a description states."""

    function: object
    arguments: tuple[object, ...]


def read_torch_file(path: Path, *, bytes_limit: int) -> Array:
    """Returns the tensor in a file, contiguous.

    Args:
        path: The file.
        bytes_limit: Limit of the storage's size in bytes.

    Raises:
        Inexpressible: The file has something else than one tensor of a floating dtype.
        OSError: The file cannot be read.
    """
    try:
        with ZipFile(path) as archive:
            return _tensor_in(archive, bytes_limit)
    except (BadZipFile, EOFError, KeyError, RuntimeError, zlib.error) as error:
        raise Inexpressible("the file is no archive of torch.save") from error


def _tensor_in(archive: ZipFile, bytes_limit: int) -> Array:
    names = archive.namelist()
    descriptions = [name for name in names if name.endswith("/data.pkl")]
    if len(descriptions) != 1:
        raise Inexpressible("the archive has no description of a tensor")
    root = descriptions[0].removesuffix("data.pkl")
    if f"{root}byteorder" in names and _bytes(archive, f"{root}byteorder", 16) != b"little":
        raise Inexpressible("the bytes are in another order than little endian")
    description = _bytes(archive, descriptions[0], _DESCRIPTION_BYTES_LIMIT)
    storage, offset, sizes, strides = _members(_described(description))
    key, dtype = _storage(storage)
    held = np.frombuffer(_bytes(archive, f"{root}data/{key}", bytes_limit), np.uint8)
    if held.size % dtype.size_bytes:
        raise Inexpressible("the storage is cut off")
    elements = held.view(NUMPY_DTYPES[dtype])
    last = offset + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
    count = prod(sizes)
    if count > elements.size or (count > 0 and last >= elements.size):
        raise Inexpressible("the tensor is larger than its storage")
    steps = [step * elements.itemsize for step in strides]
    view = np.lib.stride_tricks.as_strided(elements[offset:], sizes, steps, writeable=False)
    return np.ascontiguousarray(view).reshape(sizes)


def _bytes(archive: ZipFile, name: str, limit: int) -> bytes:
    """Returns the bytes of an entry, which may be packed."""
    entry = archive.getinfo(name)
    if entry.file_size > limit:
        raise Inexpressible(f"{entry.file_size} bytes, at most {limit} are read")
    with archive.open(entry) as file:
        return file.read(limit)


def _described(description: bytes) -> object:
    """Returns what a pickle describes; names and calls are values, and nothing is imported."""
    stack: list[object] = []
    marks: list[int] = []
    memo: dict[object, object] = {}
    try:
        for operation, argument, _ in pickletools.genops(description):
            name = operation.name
            if name in _PUTS:
                memo[argument] = stack[-1]
            elif name == "MEMOIZE":
                memo[len(memo)] = stack[-1]
            elif name == "MARK":
                marks.append(len(stack))
            elif name not in _IGNORED:
                taken, value = _step(name, argument, stack, marks, memo)
                stack[len(stack) - taken :] = [value]
        (found,) = stack
    except Inexpressible:
        raise
    except (IndexError, KeyError, ValueError) as error:
        raise Inexpressible("the description of the tensor is damaged") from error
    return found


def _step(
    name: str,
    argument: object,
    stack: list[object],
    marks: list[int],
    memo: Mapping[object, object],
) -> tuple[int, object]:
    """Returns the number of values that an operation takes from the stack, and its result."""
    if name in _LITERALS or name in _CONSTANTS:
        return 0, _CONSTANTS.get(name, argument)
    if name in _GETS:
        return 0, memo[argument]
    if name == "GLOBAL":
        return 0, _Name(str(argument))
    if name == "BINPERSID":
        return 1, _Stored(stack[-1])
    if name == "REDUCE":
        return 2, _Call(stack[-2], _tuple(stack[-1]))
    if name == "TUPLE" or name in _LENGTHS:
        taken = _LENGTHS[name] if name in _LENGTHS else len(stack) - marks.pop()
        return taken, tuple(stack[len(stack) - taken :])
    raise Inexpressible(f"the file has more than one tensor: operation {name}")


def _members(found: object) -> tuple[object, int, tuple[int, ...], tuple[int, ...]]:
    """Returns storage, offset, sizes and strides of a described tensor."""
    if not isinstance(found, _Call):
        raise Inexpressible("the file has no tensor")
    function, given = found.function, found.arguments
    if not isinstance(function, _Name) or function.text not in _TENSORS:
        raise Inexpressible("the file has another object than a tensor")
    if len(given) > _NPU_FORMAT and given[_NPU_FORMAT] not in _PLAIN_FORMATS:
        raise Inexpressible("the tensor has a format of the device's own, allowed ND and NCHW")
    match given:
        case (storage, offset, sizes, strides, *_):
            (first,), shape, steps = _row((offset,)), _row(sizes), _row(strides)
        case _:
            raise Inexpressible("the file has another object than a tensor")
    if len(shape) != len(steps):
        raise Inexpressible("the tensor has other strides than sizes")
    return storage, first, shape, steps


def _tuple(value: object) -> tuple[object, ...]:
    if not isinstance(value, tuple):
        raise Inexpressible("the file has another object than a tensor")
    return cast("tuple[object, ...]", value)


def _row(value: object) -> tuple[int, ...]:
    entries = _tuple(value)
    numbers = tuple(one for one in entries if isinstance(one, int) and 0 <= one < 1 << 62)
    if len(numbers) != len(entries):
        raise Inexpressible("the tensor has sizes that are no numbers")
    return numbers


def _storage(stored: object) -> tuple[str, DataType]:
    """Returns key and dtype of a storage."""
    if not isinstance(stored, _Stored):
        raise Inexpressible("the tensor has no storage")
    match _tuple(stored.reference):
        case (_, _Name(text=kind), str() as key, *_) if kind in _STORAGES:
            return key, _STORAGES[kind]
        case _:
            allowed = ", ".join(_STORAGES.values())
            raise Inexpressible(f"the tensor has another dtype than {allowed}")
