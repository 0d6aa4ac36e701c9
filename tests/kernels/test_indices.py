"""Indices are read from parameters and workspaces: clients may change mapped tensors."""

import ast
from collections.abc import Iterator
from pathlib import Path

import opserve_kernels.operator

KERNELS = Path(opserve_kernels.operator.__file__).parent
WITHOUT_KERNELS = {"cases", "verdict"}
WHOLE_NUMBERS = {f"np.{kind}{bits}" for kind in ("int", "uint") for bits in (32, 64)}
WORKSPACE = "scratch"
"""Names of the workspace in kernels, which no client sees (core/memory.py)."""

MEASURED = "line"
"""A part of the workspace that ranges.py loads values into; it compares their exponents."""


def whole_number_views(tree: ast.AST) -> Iterator[str]:
    """Views of a module as whole numbers that could be indices."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=viewed, attr="view"), args=[kind, *_]):
                if ast.unparse(kind) in WHOLE_NUMBERS:
                    yield ast.unparse(viewed)
            case _:
                pass


def test_no_kernel_reads_whole_numbers_from_a_tensor() -> None:
    found = {
        viewed
        for path in KERNELS.rglob("*.py")
        if path.relative_to(KERNELS).parts[0] not in WITHOUT_KERNELS
        for viewed in whole_number_views(ast.parse(path.read_text()))
    }
    of_a_number = {viewed for viewed in found if viewed.startswith("np.float32(")}
    of_the_workspace = {viewed for viewed in found if viewed.split("[")[0] == WORKSPACE}
    others = found - of_a_number - of_the_workspace
    assert of_the_workspace
    assert others == {MEASURED}, "tensors are floats and halves, nothing else"


def test_the_search_finds_a_planted_index() -> None:
    planted = ast.parse("table = tensors[0].view(np.int32); x = tensors[1].view(np.float32)")
    assert list(whole_number_views(planted)) == ["tensors[0]"]
