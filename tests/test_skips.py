"""A test that a machine cannot run is named at the end, and fails where skips are forbidden."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skips import FORBID

SKIPPED = """
from skips import needs_program

@needs_program("frob", there=False, package="frob-tools")
def test_of_frob(): ...
"""
TESTS = Path(__file__).parent


@pytest.mark.parametrize(
    ("forbidden", "code", "told"),
    [
        ("", 0, "not run here: 1 tests: frob is missing (apt-get install frob-tools)"),
        ("1", 1, f"skipped, which {FORBID} forbids: frob is missing"),
    ],
)
def test_a_missing_program_is_named_or_a_failure(
    tmp_path: Path, forbidden: str, code: int, told: str
) -> None:
    (tmp_path / "test_frob.py").write_text(SKIPPED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "skips", "-p", "no:cacheprovider", "test_frob.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{TESTS}", FORBID: forbidden},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    assert told in done.stdout
