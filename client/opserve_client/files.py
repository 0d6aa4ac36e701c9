"""Calls in files: args.json and tensors.npz, in the format of the one-shot REST route."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, cast

import numpy as np

from opserve_client._sync.session import Session
from opserve_client.array_files import read_arrays
from opserve_client.data_types import data_type_of
from opserve_client.operators import (
    OPERATORS,
    OperatorClass,
    call_of,
    infer_outputs,
    plain,
    tensor_fields,
)
from opserve_client.tensors import Array, OutputArgument
from opserve_kernels.errors import rejection
from opserve_kernels.tensor import NUMPY_DTYPES, DataType

RESULTS_SUFFIX = ".npz"
"""Suffix of files with the results of a call."""
_NUMPY_NAMES = frozenset(dtype.name for dtype in NUMPY_DTYPES.values())


class FileError(Exception):
    """A file that cannot be used; the message names the file or its member, and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFile:
    """Content of args.json: the profile of the device, and the arguments in snake case."""

    profile: str = "ascend910b"
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEntry:
    """A tensor argument in args.json: an array of the .npz file, or the dtype of an output.

    Attributes:
        array: Name of an array.
        dtype: The vendor's name of its dtype ("FLOAT", "FLOAT16", "BF16", ...) or NumPy's
            ("float32", "float16", "bfloat16", ...); None means the dtype of the array.
        format: The vendor's name of its format ("NCHW", "ND", ...); None means the default of its
            rank.
    """

    array: str | None = None
    dtype: str | None = None
    format: str | None = None


def read_arguments(path: Path) -> CallFile:
    """Reads args.json.

    Raises:
        FileError: The file is no JSON, or a member is missing, unknown or of the wrong type.
    """
    try:
        value: object = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: no JSON: {error}") from error
    given = _members(f"{path}", value, {"profile": str, "arguments": dict})
    if "arguments" not in given:
        raise FileError(f"{path}: arguments: missing")
    return CallFile(**given)


def read_tensors(path: Path) -> Mapping[str, Array]:
    """Reads the arrays of an .npz file, or the array "tensor" from an .npy file; no pickles.

    Raises:
        FileError: The file is neither.
    """
    try:
        found = read_arrays(path)
    except ValueError as error:
        raise FileError(str(error)) from error
    return found if isinstance(found, dict) else {"tensor": found}


def write_tensors(path: Path, results: Mapping[str, Array]) -> dict[str, str]:
    """Writes results to an .npz file, BF16 as uint16 bits; returns the vendor's dtypes by name."""
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
    """Runs the operator of a file; returns the outputs that the file requests, by name.

    Raises:
        FileError: The file names an unknown operator, argument, array or dtype.
        OpserveError: The call was rejected or failed.
    """
    operator, arguments = _named(call, arguments)
    tensors = tensor_fields(call_of(operator, {}))
    allowed = [field.name for field in fields(operator)]
    unknown = sorted(arguments.keys() - set(allowed))
    if unknown:
        raise FileError(
            rejection("arguments", given=", ".join(unknown), allowed=", ".join(allowed))
        )
    entries = {name: _entry(name, arguments[name]) for name in tensors if name in arguments}
    values: dict[str, Any] = dict(arguments)
    for name, entry in entries.items():
        values[name] = None if entry is None else _tensor(session, name, entry, arrays)
    for name, spec in infer_outputs(plain(call_of(operator, values))).items():
        entry = entries.get(name)
        if entry is not None and entry.array is None and entry.format is not None:
            dtype = values[name] or spec.dtype
            values[name] = session.empty(spec.shape, dtype, format=entry.format)
    results: tuple[Array | None, ...] = session.run(call_of(operator, values))
    names = operator.schema.OUTPUTS
    return {name: array for name, array in zip(names, results, strict=True) if array is not None}


def _named(call: str, arguments: Mapping[str, Any]) -> tuple[OperatorClass, Mapping[str, Any]]:
    """Returns the operator of a call; a function's name becomes the argument `function`."""
    functions = {name: operator for operator in OPERATORS.values() for name in operator.functions}
    if call in functions:
        given = arguments.get("function", call)
        if given != call:
            raise FileError(
                rejection("arguments.function", given=given, allowed=f"{call}, or none")
            )
        return functions[call], {**arguments, "function": call}
    operators = {operator.schema.CALL: operator for operator in OPERATORS.values()}
    if call not in operators:
        known = ", ".join([*operators, *functions])
        raise FileError(rejection("operator", given=call, allowed=known))
    return operators[call], arguments


def _entry(name: str, value: object) -> TensorEntry | None:
    if value is None:
        return None
    types = {"array": str | None, "dtype": str | None, "format": str | None}
    return TensorEntry(**_members(f"arguments.{name}", value, types))


def _members(place: str, value: object, types: Mapping[str, type | UnionType]) -> Mapping[str, Any]:
    """The members of a JSON object, none of which is unknown or of another type."""
    if not isinstance(value, dict):
        raise FileError(rejection(place, given=value, allowed="an object"))
    members = cast("dict[str, Any]", value)
    unknown = sorted(members.keys() - types.keys())
    if unknown:
        raise FileError(rejection(place, given=", ".join(unknown), allowed=", ".join(types)))
    for name, member in members.items():
        if not isinstance(member, types[name]):
            allowed = "an object" if types[name] is dict else "a text"
            raise FileError(rejection(f"{place}.{name}", given=member, allowed=allowed))
    return members


def _tensor(
    session: Session, name: str, entry: TensorEntry, arrays: Mapping[str, Array]
) -> OutputArgument:
    if entry.array is None:
        return None if entry.dtype is None else _data_type(name, entry.dtype)
    if entry.array not in arrays:
        raise FileError(
            rejection(f"{name}.array", given=entry.array, allowed=", ".join(sorted(arrays)))
        )
    array = _as_dtype(name, arrays[entry.array], entry.dtype)
    return array if entry.format is None else session.upload(array, format=entry.format)


def _as_dtype(name: str, array: Array, dtype: str | None) -> Array:
    """Returns an array in the dtype of its entry; BF16 is stored as uint16."""
    if dtype is None:
        return array
    wanted = _data_type(name, dtype)
    if wanted is DataType.BF16 and array.dtype == np.uint16:
        return array.view(NUMPY_DTYPES[DataType.BF16])
    if wanted is not data_type_of(array.dtype):
        raise FileError(
            rejection(f"{name}.dtype", given=dtype, allowed=f"that of its array, {array.dtype}")
        )
    return array


def _data_type(name: str, dtype: str) -> DataType:
    """Returns the dtype of a name; only names that the one-shot REST route accepts are valid."""
    if dtype not in DataType.__members__ and dtype not in _NUMPY_NAMES:
        allowed = ", ".join([*DataType.__members__, *sorted(_NUMPY_NAMES)])
        raise FileError(rejection(f"{name}.dtype", given=dtype, allowed=allowed))
    return data_type_of(dtype)
