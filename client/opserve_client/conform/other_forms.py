"""Suites from files of other projects: lines of benchdnn and MIOpenDriver, folders of ONNX tests.

Inputs are random as in every suite; only onnx_folders reads the inputs in ONNX's folders.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from opserve_client import extras
from opserve_client.conform.targets.target import InfrastructureError
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.readers.benchdnn import read_benchdnn
from opserve_kernels.cases.readers.miopen import read_miopen
from opserve_kernels.cases.readers.read import Read
from opserve_kernels.cases.suite import Suite


def suite_of(form: str, path: Path, seed: int) -> Suite:
    """Converts a file or folder to a suite; reports lines without a case on standard error.

    Args:
        form: One of FORMS.
        path: The file, or for ONNX a folder with one test or with many.
        seed: Seed of the inputs.

    Raises:
        InfrastructureError: The file cannot be read, or nothing in it can be converted to a case.
    """
    try:
        cases, unconverted = FORMS[form](path)
    except (ImportError, OSError, UnicodeDecodeError) as error:
        raise InfrastructureError(f"{path}: {error}") from error
    for reason in unconverted:
        sys.stderr.write(f"{path}, {reason}\n")
    if not cases:
        raise InfrastructureError(f"{path}: nothing can be converted to a case")
    return Suite(name=f"{form}:{path.name}", seed=seed, cases=tuple(cases.values()))


def _lines(read: Callable[[str], Read]) -> "Reader":
    def read_file(path: Path) -> tuple[dict[str, Case], list[str]]:
        found = read(path.read_text(encoding="utf-8"))
        unconverted = [f"line {one.line}: {one.reason}: {one.text}" for one in found.refused]
        return {case.id: case for case in found.cases}, unconverted

    return read_file


def _folders(path: Path) -> tuple[dict[str, Case], list[str]]:
    extras.require("conform", need="a suite of ONNX folders")
    from opserve_client.conform.onnx_folders import read_folders  # noqa: PLC0415  needs onnx

    found = read_folders(path)
    unconverted = [f"{one.name}: {one.reason}" for one in found.unconverted]
    return {given.case.id: given.case for given in found.cases}, unconverted


Reader = Callable[[Path], tuple[dict[str, Case], list[str]]]
"""Returns cases by id, and the reasons for lines or folders without a case."""

FORMS: Mapping[str, Reader] = {
    "benchdnn": _lines(read_benchdnn),
    "miopen": _lines(read_miopen),
    "onnx": _folders,
}
"""Readers by the prefix of a suite's name."""
