"""Reads folders of ONNX's backend tests: calls, their operands, and what must come of them.

A folder holds model.onnx, of one node, and test_data_set_0, test_data_set_1, ... with input_0.pb,
... and output_0.pb. A tensor whose data lie in another file is refused: no path is taken from a
file. Needs the package onnx: pip install opserve[conform].
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

MODEL = "model.onnx"
FILE_BYTES_LIMIT = 1 << 26
ELEMENTS_LIMIT = 1 << 24  # of a tensor
FOLDERS_LIMIT, DATA_SETS_LIMIT = 10_000, 100  # of a root, of a folder
_TENSORS_LIMIT = 10  # of a graph's inputs: Conv has three
_TEXT_CHARACTERS = 100  # of an attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """A data set, or a folder, that makes no case.

    Attributes:
        name: Its own, behind the folder's.
        reason: Why.
    """

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """What folders have made.

    Attributes:
        cases: With operands and expectations.
        left: What cannot be expressed.
    """

    cases: tuple[GivenCase, ...]
    left: tuple[Left, ...]


def read_folders(root: Path, *, profile: str = "ascend910b") -> Folders:
    """All test folders in a folder, or the one that it is.

    Args:
        root: The folder.
        profile: That calls are made for.
    """
    folders = [root] if (root / MODEL).is_file() else _below(root)
    cases: list[GivenCase] = []
    left: list[Left] = []
    for folder in folders:
        for name, made in _read(folder, profile):
            if isinstance(made, str):
                left.append(Left(name=name, reason=made))
            else:
                cases += made
    return Folders(cases=tuple(cases), left=tuple(left))


def _below(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob(f"*/{MODEL}"))[:FOLDERS_LIMIT]


def _read(folder: Path, profile: str) -> Iterator[tuple[str, Sequence[GivenCase] | str]]:
    """Each data set with its cases, or the reason why there are none."""
    sets = sorted(folder.glob("test_data_set_*"))[:DATA_SETS_LIMIT]
    if not sets:
        yield folder.name, "there is no test_data_set_0"
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
        raise Inexpressible(f"{MODEL}: given {len(graph.node)} nodes, allowed is one")
    if len(graph.input) > _TENSORS_LIMIT:
        raise Inexpressible(f"{MODEL}: given {len(graph.input)} inputs, at most {_TENSORS_LIMIT}")
    (node,) = graph.node
    arrays = {tensor.name: _array(tensor, tensor.name) for tensor in graph.initializer}
    given = [value.name for value in graph.input if value.name not in arrays]
    for place, value in enumerate(given):
        arrays[value] = _stored(data / f"input_{place}.pb")
    if missing := [value for value in node.input if value and value not in arrays]:
        raise Inexpressible(f"{missing[0][:_TEXT_CHARACTERS]}: is no input of the graph")
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
    """Its elements, none of them from another file."""
    if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
        raise Inexpressible(f"{name}: its data are in another file, which is not read")
    if min(tensor.dims, default=0) < 0 or prod(tensor.dims) > ELEMENTS_LIMIT:
        raise Inexpressible(f"{name}: has {list(tensor.dims)}, at most {ELEMENTS_LIMIT} elements")
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except (KeyError, TypeError, ValueError) as error:
        raise Inexpressible(f"{name}: its data do not fit its shape and dtype") from error


def _attribute(one: AttributeProto) -> int | str | Row:
    match one.type:
        case AttributeProto.INT:
            return one.i
        case AttributeProto.INTS:
            return tuple(one.ints)
        case AttributeProto.STRING:
            return one.s.decode(errors="replace")[:_TEXT_CHARACTERS]
        case _:
            raise Inexpressible(f"{one.name[:_TEXT_CHARACTERS]}: no integers and no text")


def _bytes_of(path: Path) -> bytes:
    if not path.is_file():
        raise Inexpressible(f"{path.name}: is missing")
    if path.stat().st_size > FILE_BYTES_LIMIT:
        raise Inexpressible(f"{path.name}: is larger than {FILE_BYTES_LIMIT} bytes")
    return path.read_bytes()
