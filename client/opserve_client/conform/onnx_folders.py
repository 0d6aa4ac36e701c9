"""Readers for folders of ONNX's backend tests: calls, operands and expected results.

A folder has model.onnx with one node, and test_data_set_0, test_data_set_1, ... with input_0.pb,
... and output_0.pb. A tensor with data in another file is rejected: the reader opens no path that a
file names. Needs the package onnx: pip install opserve[conform].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, numpy_helper

from opserve_client.conform.onnx_calls import Array, GivenCase, Node, cases_of
from opserve_kernels.cases.calls import Row
from opserve_kernels.cases.readers.read import Inexpressible
from opserve_kernels.errors import rejection

MODEL = "model.onnx"
FILE_BYTES_LIMIT = 1 << 26
ELEMENTS_LIMIT = 1 << 24  # of a tensor
FOLDERS_LIMIT, DATA_SETS_LIMIT = 10_000, 100  # of a root, of a folder
_TENSORS_LIMIT = 10  # of a graph's inputs: Conv has three
_TEXT_CHARACTERS = 100  # of an attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconverted:
    """A data set, or a folder, that cannot be converted to a case.

    Attributes:
        name: Names of the folder and of the data set.
        reason: The reason.
    """

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """The content of folders.

    Attributes:
        cases: Cases with operands and expected results.
        unconverted: Data sets and folders without cases.
    """

    cases: tuple[GivenCase, ...]
    unconverted: tuple[Unconverted, ...]


def read_folders(root: Path, *, profile: str = "ascend910b") -> Folders:
    """Reads a test folder, or all test folders in a folder.

    Args:
        root: The folder.
        profile: Profile of the calls.
    """
    folders = [root] if (root / MODEL).is_file() else _below(root)
    cases: list[GivenCase] = []
    unconverted: list[Unconverted] = []
    for folder in folders:
        for name, found in _read(folder, profile):
            if isinstance(found, str):
                unconverted.append(Unconverted(name=name, reason=found))
            else:
                cases += found
    return Folders(cases=tuple(cases), unconverted=tuple(unconverted))


def _below(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob(f"*/{MODEL}"))[:FOLDERS_LIMIT]


def _read(folder: Path, profile: str) -> Iterator[tuple[str, Sequence[GivenCase] | str]]:
    """Yields each data set with its cases, or with the reason why it has none."""
    sets = sorted(folder.glob("test_data_set_*"))[:DATA_SETS_LIMIT]
    if not sets:
        yield folder.name, "the folder has no test_data_set_0"
    for data in sets:
        name = f"{folder.name}/{data.name}"
        try:
            model = ModelProto.FromString(_bytes_of(folder / MODEL))
            yield name, cases_of(_node(model.graph, data, name, profile))
        except Inexpressible as reason:
            yield name, str(reason)
        except DecodeError:
            yield name, "a file is no message of ONNX"


def _node(graph: GraphProto, data: Path, name: str, profile: str) -> Node:
    if len(graph.node) != 1:
        raise Inexpressible(rejection(MODEL, given=f"{len(graph.node)} nodes", allowed="one"))
    if len(graph.input) > _TENSORS_LIMIT:
        inputs, allowed = len(graph.input), f"at most {_TENSORS_LIMIT}"
        raise Inexpressible(rejection(MODEL, given=f"{inputs} inputs", allowed=allowed))
    (node,) = graph.node
    arrays = {tensor.name: _array(tensor, tensor.name) for tensor in graph.initializer}
    given = [value.name for value in graph.input if value.name not in arrays]
    for place, value in enumerate(given):
        arrays[value] = _stored(data / f"input_{place}.pb")
    if missing := [value for value in node.input if value and value not in arrays]:
        raise Inexpressible(f"{missing[0][:_TEXT_CHARACTERS]}: the graph has no such input")
    return Node(
        name=name,
        operator=node.op_type,
        profile=profile,
        attributes={one.name: _attribute(one) for one in node.attribute},
        inputs=[arrays.get(value) for value in node.input],
        output=_stored(data / "output_0.pb"),
    )


def _stored(path: Path) -> Array:
    return _array(TensorProto.FromString(_bytes_of(path)), path.name)


def _array(tensor: TensorProto, name: str) -> Array:
    """Returns the elements of a tensor; rejects one with data in another file."""
    if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
        raise Inexpressible(
            rejection(name, given="data in another file", allowed="data in this file")
        )
    if min(tensor.dims, default=0) < 0 or prod(tensor.dims) > ELEMENTS_LIMIT:
        given, allowed = list(tensor.dims), f"at most {ELEMENTS_LIMIT} elements"
        raise Inexpressible(rejection(name, given=f"the shape {given}", allowed=allowed))
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (KeyError, TypeError, ValueError) as error:
        raise Inexpressible(f"{name}: the data do not fit the shape and dtype") from error


def _attribute(one: AttributeProto) -> int | str | Row:
    match one.type:
        case AttributeProto.INT:
            return one.i
        case AttributeProto.INTS:
            return tuple(one.ints)
        case AttributeProto.STRING:
            return one.s.decode(errors="replace")[:_TEXT_CHARACTERS]
        case _:
            name = one.name[:_TEXT_CHARACTERS]
            raise Inexpressible(
                rejection(name, given="another attribute", allowed="integers and texts")
            )


def _bytes_of(path: Path) -> bytes:
    if not path.is_file():
        raise Inexpressible(f"{path.name}: the file is missing")
    if path.stat().st_size > FILE_BYTES_LIMIT:
        raise Inexpressible(f"{path.name}: the file is larger than {FILE_BYTES_LIMIT} bytes")
    return path.read_bytes()
