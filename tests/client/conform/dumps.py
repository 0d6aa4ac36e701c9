"""Dumps as msprobe writes them: dump.json, and tensors in files of NumPy or of torch.save."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.tensor import NUMPY_DTYPES, DataType

Array = NDArray[Any]
Json = dict[str, Any]
BFLOAT16 = NUMPY_DTYPES[DataType.BF16]
_STORAGES = {
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "float64": "DoubleStorage",
    "int64": "LongStorage",
}
TENSOR = "torch._utils\n_rebuild_tensor_v2"
NPU_TENSOR = "torch_npu.utils.storage\n_rebuild_npu_tensor"


class Dump:
    """A dump that is being recorded.

    Args:
        folder: Its folder.
        suffix: Of its tensors: .npy as of MindSpore, or .pt as of PyTorch.
    """

    def __init__(self, folder: Path, suffix: str = ".npy") -> None:
        self.folder, self.suffix = folder, suffix
        self.data: dict[str, Json] = {}
        (folder / "dump_tensor_data").mkdir(parents=True)

    def record(self, name: str, **entry: object) -> None:
        """Adds a record: arrays become files, and everything else its JSON."""
        self.data[name] = {
            member: self._form(f"{name}.{member.removesuffix('_args')}", value)
            for member, value in entry.items()
        }

    def write(self) -> None:
        """Writes dump.json."""
        form = {"task": "tensor", "level": "L1", "dump_data_dir": "/elsewhere", "data": self.data}
        (self.folder / "dump.json").write_text(json.dumps(form))

    def _form(self, name: str, value: object) -> object:
        if isinstance(value, np.ndarray):
            return self._tensor(f"{name}{self.suffix}", cast("Array", value))
        if isinstance(value, Mapping):
            members = cast("Mapping[str, object]", value)
            return {key: self._form(f"{name}.{key}", one) for key, one in members.items()}
        if isinstance(value, (list, tuple)):
            entries = cast("list[object]", value)
            return [self._form(f"{name}.{place}", one) for place, one in enumerate(entries)]
        return None if value is None else {"type": type(value).__name__, "value": value}

    def _tensor(self, file: str, array: Array) -> Json:
        path = self.folder / "dump_tensor_data" / file
        if self.suffix == ".pt":
            write_torch(path, array)
        else:
            np.save(path, array.astype(np.float32) if array.dtype == BFLOAT16 else array)
        about = {"dtype": f"torch.{array.dtype.name}", "shape": list(array.shape)}
        return {"type": "torch.Tensor", **about, "requires_grad": True, "data_name": file}


def convolution(dump: Dump, number: int = 0, *, dtype: str = "float32") -> Mapping[str, Array]:
    """Records a convolution and its gradient; returns the inputs of the gradient."""
    numbers = np.random.default_rng(number)
    shapes = {"grad_output": (2, 4, 3, 3), "input": (2, 3, 6, 6), "weight": (4, 3, 3, 3)}
    arrays = {name: numbers.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    name = f"Functional.conv2d.{number}"
    given = (arrays["input"], arrays["weight"], None)
    dump.record(f"{name}.forward", input_args=given, input_kwargs={"stride": [2, 2], "padding": 1})
    dump.record(f"{name}.backward", input=[arrays["grad_output"]], output=[])
    return arrays


def write_torch(
    path: Path, array: Array, *, npu_format: int | None = None, held: bytes | None = None
) -> None:
    """Writes a tensor as torch.save does, on request as torch_npu does, or with other bytes."""
    strides = [step // array.itemsize for step in array.strides]
    storage = f"torch\n{_STORAGES[array.dtype.name]}"
    rest = b"" if npu_format is None else _integer(npu_format)
    kind = TENSOR if npu_format is None else NPU_TENSOR
    members = (
        _tuple(_text("storage"), _global(storage), _text("0"), _text("cpu"), _integer(array.size)),
        b"Q" + _integer(0) + _tuple(*map(_integer, array.shape)),
        _tuple(*map(_integer, strides)) + b"\x89" + _global("collections\nOrderedDict") + b")R",
    )
    held = array.tobytes() if held is None else held
    write_archive(path, _global(kind) + _tuple(*members, rest) + b"R", held)


def write_archive(path: Path, description: bytes, *storages: bytes) -> None:
    """Writes a description, a pickle of protocol 2 without its frame, and the bytes of storages."""
    with ZipFile(path, "w") as archive:
        archive.writestr("saved/data.pkl", b"\x80\x02" + description + b".")
        archive.writestr("saved/byteorder", "little")
        for place, held in enumerate(storages):
            archive.writestr(f"saved/data/{place}", held)


def call_of(function: str, argument: str) -> bytes:
    """The description of a call: what a hostile pickle would run."""
    return _global(function) + _tuple(_text(argument)) + b"R"


def _global(name: str) -> bytes:
    return b"c" + name.encode() + b"\n"


def _text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def _integer(number: int) -> bytes:
    return b"J" + struct.pack("<i", number)


def _tuple(*members: bytes) -> bytes:
    return b"(" + b"".join(members) + b"t"
