"""The runner decides; client and service bring targets, backends and stores."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DECIDING = {"judge_case", "judge_output", "conclude", "replaces_refusal", "sized_outputs"} | {
    "reference_calls",
    "reference_key",
    "prepared_calls",
    "kept_arrays",
    "expected_in",
    "matches",
}
"""Functions of which a trial, its expected values and a selection are made."""
KNOWN = {("known.py", "matches")}
"""A line of known failures is a pattern too."""


@pytest.mark.parametrize(
    "folder", ["client/opserve_client", "client/opserve_pytest", "server/opserve_server"]
)
def test_no_part_of_a_trial_is_put_together_elsewhere(folder: str) -> None:
    found = {
        (path.name, alias.name)
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("opserve_kernels")
        for alias in node.names
    }
    assert {one for one in found if one[1] in DECIDING} <= KNOWN
