"""A dump of msprobe as a suite: DIR/dump.json and the tensors in DIR/dump_tensor_data.

DIR has these itself, or DIR/step0/rank0 and others like it have them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from opserve_client.conform.msprobe.arguments import PARAMETERS, Recorded
from opserve_client.conform.msprobe.calls import Entry, RecordedCase, cases_of_call
from opserve_client.conform.msprobe.tensor_files import RecordedFiles, TensorFile, digest_of
from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Case, Fill, Kind
from opserve_kernels.cases.readers.read import Inexpressible

DUMP, TENSORS = "dump.json", "dump_tensor_data"
DUMP_BYTES_LIMIT = 1 << 26
CASES_LIMIT = 10_000
"""Most cases of a dump."""
_MODULES = ("Conv", "ConvTranspose")
_PARTS = 4  # of a call's name: package, function, number and direction


@dataclass(slots=True, kw_only=True)
class Dump:
    """The content of a dump.

    Attributes:
        cases: Cases by id.
        files: Files of their inputs, by case and input.
        unconverted: Calls of known functions, or their gradients, without a case, with the reason.
        others: Number of calls of other functions.
        modules: Number of records of convolution modules, which lack stride and padding.
    """

    cases: dict[str, Case] = field(default_factory=dict[str, Case])
    files: dict[str, Mapping[str, TensorFile]] = field(
        default_factory=dict[str, Mapping[str, TensorFile]]
    )
    unconverted: list[str] = field(default_factory=list[str])
    others: int = 0
    modules: int = 0

    @property
    def recorded(self) -> RecordedFiles:
        """The inputs of all cases."""
        return RecordedFiles(files=self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """The records of a call.

    Attributes:
        name: "Functional.conv2d.0".
        function: "Functional.conv2d".
        forward: Forward record; None without one.
        backward: Backward record; None without one.
    """

    name: str
    function: str
    forward: Entry | None = None
    backward: Entry | None = None


def read_dump(root: Path, *, profile: str = "ascend910b") -> Dump:
    """Reads a dump; no tensor is kept, and no file outside of the folder is read.

    Args:
        root: The folder.
        profile: Profile of the calls.

    Raises:
        Inexpressible: The folder has no dump, or one of another form.
        OSError: A file cannot be read.
    """
    dump, root = Dump(), root.resolve()
    for folder in _folders(root):
        place = folder.relative_to(root).as_posix().removeprefix(".")
        for call in _calls(_data_of(root, folder), dump):
            name = f"{place} {call.name}".strip()
            setting = Setting(profile=profile, tags=("msprobe",), source=name)
            reasons = dict.fromkeys(_reasons(dump, call, setting, root, folder))
            dump.unconverted += [f"{name}: {reason}" for reason in reasons]
    return dump


def _reasons(dump: Dump, call: _Call, setting: Setting, root: Path, folder: Path) -> Iterator[str]:
    """Adds the cases of a call; yields a reason for each part of it that is none."""
    for found in cases_of_call(call.function, call.forward, call.backward, setting):
        if isinstance(found, Inexpressible):
            yield str(found)
            continue
        try:
            _add(dump, found, root, folder)
        except (Inexpressible, OSError) as reason:
            yield str(reason)


def _folders(root: Path) -> list[Path]:
    patterns = (DUMP, f"rank*/{DUMP}", f"proc*/{DUMP}", f"step*/*/{DUMP}")
    found = sorted({path.parent for pattern in patterns for path in root.glob(pattern)})
    if not found:
        raise Inexpressible(f"no {DUMP} in the folder or its folders step*/rank*")
    return found


def _data_of(root: Path, folder: Path) -> Mapping[str, object]:
    path = _inside(root, folder, DUMP)
    if path.stat().st_size > DUMP_BYTES_LIMIT:
        raise Inexpressible(f"{DUMP}: the file is larger than {DUMP_BYTES_LIMIT} bytes")
    try:
        form: object = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Inexpressible(f"{DUMP}: the file is no JSON") from error
    data = cast("dict[str, object]", form).get("data") if isinstance(form, dict) else None
    if not isinstance(data, dict):
        raise Inexpressible(f"{DUMP}: the member data is no object")
    return cast("dict[str, object]", data)


def _calls(data: Mapping[str, object], dump: Dump) -> Iterator[_Call]:
    """Yields the calls of known functions in the dump's order; counts the others."""
    found: dict[str, _Call] = {}
    others: set[str] = set()
    for key, value in data.items():
        name, _, direction = key.rpartition(".")
        function = name.rpartition(".")[0]
        is_call = direction in {"forward", "backward"} and isinstance(value, dict)
        if function in PARAMETERS and is_call and key.count(".") == _PARTS - 1:
            entry = cast("Entry", value)
            known = found.get(name, _Call(name=name, function=function))
            forward = entry if direction == "forward" else known.forward
            backward = entry if direction == "backward" else known.backward
            found[name] = replace(known, forward=forward, backward=backward)
        else:
            others.add(name if direction in {"forward", "backward"} else key)
            dump.modules += key.startswith("Module.") and _is_convolution(key)
    dump.others += len(others)
    yield from found.values()


def _is_convolution(key: str) -> bool:
    kinds = {f"{module}{axes}d" for module in _MODULES for axes in (1, 2, 3)}
    return "forward" in key and not kinds.isdisjoint(key.split("."))


def _add(dump: Dump, found: RecordedCase, root: Path, folder: Path) -> None:
    if len(dump.cases) >= CASES_LIMIT:
        raise Inexpressible(f"a dump has at most {CASES_LIMIT} cases")
    case, tensors = found.case, dict(found.case.tensors)
    files = {name: _file(root, folder, record, case, name) for name, record in found.inputs.items()}
    for name, file in files.items():
        fill = Fill(kind=Kind.RECORDED, digest=digest_of(file.read()))
        tensors[name] = replace(tensors[name], fill=fill)
    case = replace(case, tensors=tensors)
    dump.cases.setdefault(case.id, case)
    dump.files.setdefault(case.id, files)


def _file(root: Path, folder: Path, record: Recorded, case: Case, name: str) -> TensorFile:
    if not record.file:
        raise Inexpressible(f"{name}: the dump has statistics only; record it with task tensor")
    path = _inside(root, folder / TENSORS, record.file)
    return TensorFile(path=path, dtype=case.tensors[name].dtype, shape=record.shape)


def _inside(root: Path, folder: Path, name: str) -> Path:
    """Returns the path of a file in a folder; no name and no link leads out of the root."""
    is_name = name == Path(name).name and "\\" not in name and "\0" not in name
    path = folder / name
    if not is_name or not path.resolve().is_relative_to(root):
        raise Inexpressible(f"{name[:64]!r}: the file is outside of the folder")
    return path
