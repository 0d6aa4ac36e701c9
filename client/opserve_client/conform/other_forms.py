"""Suites from what others keep layers in: benchdnn's and MIOpenDriver's lines, ONNX's tests.

Inputs are drawn as for every case; what ONNX's folders store of them is for onnx_folders alone.
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
    """The calls that a file or folder stands for; what makes none is told on standard error.

    Args:
        form: One of FORMS.
        path: The file; of ONNX's tests, a folder with one of them or with many.
        seed: That inputs are drawn by.

    Raises:
        InfrastructureError: It cannot be read, or makes no case.
    """
    try:
        cases, left = FORMS[form](path)
    except (ImportError, OSError, UnicodeDecodeError) as error:
        raise InfrastructureError(f"{path}: {error}") from error
    for reason in left:
        sys.stderr.write(f"{path}, {reason}\n")
    if not cases:
        raise InfrastructureError(f"{path}: makes no case")
    return Suite(name=f"{form}:{path.name}", seed=seed, cases=tuple(cases.values()))


def _lines(read: Callable[[str], Read]) -> "Reader":
    def read_file(path: Path) -> tuple[dict[str, Case], list[str]]:
        found = read(path.read_text(encoding="utf-8"))
        left = [f"line {one.line}: {one.reason}: {one.text}" for one in found.refused]
        return {case.id: case for case in found.cases}, left

    return read_file


def _folders(path: Path) -> tuple[dict[str, Case], list[str]]:
    extras.require("conform", need="a suite of ONNX folders")
    from opserve_client.conform.onnx_folders import read_folders  # noqa: PLC0415  needs onnx

    found = read_folders(path)
    left = [f"{one.name}: {one.reason}" for one in found.left]
    return {given.case.id: given.case for given in found.cases}, left


Reader = Callable[[Path], tuple[dict[str, Case], list[str]]]
"""Gives cases by id, and what makes none with the reason."""

FORMS: Mapping[str, Reader] = {
    "benchdnn": _lines(read_benchdnn),
    "miopen": _lines(read_miopen),
    "onnx": _folders,
}
"""What reads a path, by the word before its colon."""
