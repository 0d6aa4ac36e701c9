"""Calls in files: args.json and tensors.npz, as the one-shot REST route takes them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, cast
from zipfile import BadZipFile

import numpy as np
from numpy.lib.npyio import NpzFile

from opserve_client._sync.session import Session
from opserve_client.data_types import data_type_of
from opserve_client.operators import OPERATORS, OperatorClass, infer_outputs, plain, tensor_fields
from opserve_client.tensors import Array, OutputArgument
from opserve_kernels.tensor import NUMPY_DTYPES, DataType

_NUMPY_NAMES = frozenset(dtype.name for dtype in NUMPY_DTYPES.values())


class FileError(Exception):
    """A file, or what it asks for, cannot be used; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFile:
    """args.json: the profile of the device, and the arguments in snake case."""

    profile: str = "ascend910b"
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEntry:
    """A tensor argument in args.json: an array of the .npz, or the dtype of an output.

    Attributes:
        array: Name of an array.
        dtype: The vendor's name of its dtype ("FLOAT", "FLOAT16", "BF16", ...) or NumPy's
            ("float32", "float16", "bfloat16", ...); that of the array if None.
        format: The vendor's name of its format ("NCHW", "ND", ...); by rank if None.
    """

    array: str | None = None
    dtype: str | None = None
    format: str | None = None


def read_arguments(path: Path) -> CallFile:
    """Reads args.json."""
    try:
        value: object = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: no JSON: {error}") from error
    given = _members(f"{path}", value, {"profile": str, "arguments": dict})
    if "arguments" not in given:
        raise FileError(f"{path}: arguments: missing")
    return CallFile(**given)


def read_tensors(path: Path) -> Mapping[str, Array]:
    """Reads the arrays of an .npz, or the array of an .npy under the name "tensor"; no pickles."""
    try:
        with path.open("rb") as file:
            loaded: Array | NpzFile = np.load(file, allow_pickle=False)
            if isinstance(loaded, NpzFile):
                return {name: loaded[name] for name in loaded.files}
            return {"tensor": loaded}
    except (ValueError, EOFError, BadZipFile) as error:
        raise FileError(f"{path}: not a .npz or .npy of plain arrays ({error})") from error


def write_tensors(path: Path, results: Mapping[str, Array]) -> dict[str, str]:
    """Writes results as .npz, BF16 as its uint16 bits; returns their dtypes by name."""
    dtypes = {name: data_type_of(array.dtype) for name, array in results.items()}
    plain = {
        name: array.view(np.uint16) if dtypes[name] is DataType.BF16 else array
        for name, array in results.items()
    }
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **plain)
    return {name: str(dtype) for name, dtype in dtypes.items()}


def run_file(
    session: Session, call: str, arguments: Mapping[str, Any], arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """Runs the operator that a file asks for; returns the outputs that it asks for."""
    operator, arguments = _named(call, arguments)
    tensors = tensor_fields(operator())
    allowed = [field.name for field in fields(operator)]
    unknown = sorted(arguments.keys() - set(allowed))
    if unknown:
        raise FileError(f"arguments: given {', '.join(unknown)}, allowed {', '.join(allowed)}")
    entries = {name: _entry(name, arguments[name]) for name in tensors if name in arguments}
    values: dict[str, Any] = dict(arguments)
    for name, entry in entries.items():
        values[name] = None if entry is None else _tensor(session, name, entry, arrays)
    for name, spec in infer_outputs(plain(operator(**values))).items():
        wish = entries.get(name)
        if wish is not None and wish.array is None and wish.format is not None:
            dtype = values[name] or spec.dtype
            values[name] = session.empty(spec.shape, dtype, format=wish.format)
    results: tuple[Array | None, ...] = session.run(operator(**values))
    names = operator.schema.OUTPUTS
    return {name: array for name, array in zip(names, results, strict=True) if array is not None}


def _named(call: str, arguments: Mapping[str, Any]) -> tuple[OperatorClass, Mapping[str, Any]]:
    """The operator of a call; a function that stands for one is its argument."""
    functions = {name: operator for operator in OPERATORS.values() for name in operator.functions}
    if call in functions:
        given = arguments.get("function", call)
        if given != call:
            raise FileError(f"arguments.function: given {given}, allowed {call}, or none")
        return functions[call], {**arguments, "function": call}
    operators = {operator.schema.CALL: operator for operator in OPERATORS.values()}
    if call not in operators:
        known = ", ".join([*operators, *functions])
        raise FileError(f"operator: given {call}, allowed {known}")
    return operators[call], arguments


def _entry(name: str, value: object) -> TensorEntry | None:
    if value is None:
        return None
    types = {"array": str | None, "dtype": str | None, "format": str | None}
    return TensorEntry(**_members(f"arguments.{name}", value, types))


def _members(place: str, value: object, types: Mapping[str, type | UnionType]) -> Mapping[str, Any]:
    """The members of a JSON object, none of which is unknown or of another type."""
    if not isinstance(value, dict):
        raise FileError(f"{place}: given {value}, allowed an object")
    members = cast("dict[str, Any]", value)
    unknown = sorted(members.keys() - types.keys())
    if unknown:
        raise FileError(f"{place}: given {', '.join(unknown)}, allowed {', '.join(types)}")
    for name, member in members.items():
        if not isinstance(member, types[name]):
            allowed = "an object" if types[name] is dict else "a text"
            raise FileError(f"{place}.{name}: given {member}, allowed {allowed}")
    return members


def _tensor(
    session: Session, name: str, entry: TensorEntry, arrays: Mapping[str, Array]
) -> OutputArgument:
    if entry.array is None:
        return None if entry.dtype is None else _data_type(name, entry.dtype)
    if entry.array not in arrays:
        raise FileError(f"{name}.array: given {entry.array}, allowed {', '.join(sorted(arrays))}")
    array = _as_dtype(name, arrays[entry.array], entry.dtype)
    return array if entry.format is None else session.upload(array, format=entry.format)


def _as_dtype(name: str, array: Array, dtype: str | None) -> Array:
    """An array in the dtype that its entry names: BF16 travels as uint16."""
    if dtype is None:
        return array
    wanted = _data_type(name, dtype)
    if wanted is DataType.BF16 and array.dtype == np.uint16:
        return array.view(NUMPY_DTYPES[DataType.BF16])
    if wanted is not data_type_of(array.dtype):
        raise FileError(f"{name}.dtype: given {dtype}, allowed that of its array, {array.dtype}")
    return array


def _data_type(name: str, dtype: str) -> DataType:
    """The dtype of a name that the one-shot REST route takes as well: NumPy has more of them."""
    if dtype not in DataType.__members__ and dtype not in _NUMPY_NAMES:
        allowed = ", ".join([*DataType.__members__, *sorted(_NUMPY_NAMES)])
        raise FileError(f"{name}.dtype: given {dtype}, allowed {allowed}")
    return data_type_of(dtype)
