"""Suites from files of other projects.

Lines of benchdnn and MIOpenDriver and folders of ONNX tests give calls, whose inputs are random as
in every suite; only onnx_folders reads the inputs in ONNX's folders. Dumps of msprobe give calls
with their recorded inputs.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opserve_client import extras
from opserve_client.conform.msprobe.dump import read_dump
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.file_errors import sentence_of
from opserve_kernels.cases.arrays import Recorded, nothing_recorded
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.readers.benchdnn import read_benchdnn
from opserve_kernels.cases.readers.miopen import read_miopen
from opserve_kernels.cases.readers.read import Inexpressible, Read
from opserve_kernels.cases.suite import Suite


def suite_of(form: str, path: Path, seed: int) -> Suite:
    """Converts a file or folder to a suite; reports lines without a case on standard error.

    Args:
        form: One of FORMS.
        path: The file, or for ONNX a folder with one test or with many, or the folder of a dump.
        seed: Seed of the inputs.

    Raises:
        InfrastructureError: The file cannot be read, or nothing in it can be converted to a case.
    """
    if not path.exists():
        raise InfrastructureError(f"suite {form}:{path}: there is no such file or folder.")
    try:
        found = FORMS[form](path)
    except OSError as error:
        raise InfrastructureError(sentence_of(error)) from error
    except (ImportError, Inexpressible, UnicodeDecodeError) as error:
        raise InfrastructureError(f"{path}: {error}") from error
    for reason in found.unconverted:
        sys.stderr.write(f"{path}, {reason}\n")
    if not found.cases:
        raise InfrastructureError(f"{path}: nothing can be converted to a case")
    cases = tuple(found.cases.values())
    name = f"{form}:{path.resolve().name}"
    return Suite(name=name, seed=seed, cases=cases, recorded=found.recorded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """The content of a file or folder.

    Attributes:
        cases: Cases by id.
        unconverted: Reasons for the lines, folders or calls without a case.
        recorded: Function that returns the recorded inputs of a case.
    """

    cases: Mapping[str, Case]
    unconverted: Sequence[str]
    recorded: Recorded = nothing_recorded


def _lines(read: Callable[[str], Read]) -> "Reader":
    def read_file(path: Path) -> Converted:
        found = read(path.read_text(encoding="utf-8"))
        unconverted = [f"line {one.line}: {one.reason}: {one.text}" for one in found.refused]
        return Converted(cases={case.id: case for case in found.cases}, unconverted=unconverted)

    return read_file


def _folders(path: Path) -> Converted:
    extras.require("conform", need="a suite of ONNX folders")
    from opserve_client.conform.onnx_folders import read_folders  # noqa: PLC0415  needs onnx

    found = read_folders(path)
    unconverted = [f"{one.name}: {one.reason}" for one in found.unconverted]
    cases = {given.case.id: given.case for given in found.cases}
    return Converted(cases=cases, unconverted=unconverted)


def _dump(path: Path) -> Converted:
    found = read_dump(path)
    reasons = list(found.unconverted)
    if found.others:
        reasons.append(f"{found.others} calls of other functions are left out")
    if found.modules and not found.cases:
        lack = "records of convolution modules have no stride and padding"
        reasons.append(f"{found.modules} {lack}; record the dump with level L1 or mix")
    return Converted(cases=found.cases, unconverted=reasons, recorded=found.recorded)


Reader = Callable[[Path], Converted]

FORMS: Mapping[str, Reader] = {
    "benchdnn": _lines(read_benchdnn),
    "miopen": _lines(read_miopen),
    "onnx": _folders,
    "msprobe": _dump,
}
"""Readers by the prefix of a suite's name."""
