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
ABSENT = """
import pytest

def test_of_what_is_there(): ...

@pytest.mark.vendor_pages
def test_of_a_page(): assert False

@pytest.mark.previous_release
def test_of_a_release(): assert False
"""
ALONE = {"PYTHONPATH": f"{Path(__file__).parent}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


@pytest.mark.parametrize(
    ("forbidden", "code", "message"),
    [
        ("", 0, "not run here: 1 tests: frob is missing (apt-get install frob-tools)"),
        ("1", 1, f"skipped, which {FORBID} forbids: frob is missing"),
    ],
)
def test_a_missing_program_is_named_or_a_failure(
    tmp_path: Path, forbidden: str, code: int, message: str
) -> None:
    done = pytest_of(SKIPPED, tmp_path, plugin="skips", **{FORBID: forbidden})
    assert done.returncode == code, done.stdout
    assert message in done.stdout


def test_programs_that_no_package_provides_are_left_out_even_if_skips_are_forbidden(
    tmp_path: Path,
) -> None:
    nowhere = {"OPSERVE_SEEDS": f"{tmp_path / 'seeds'}", "PATH": f"{tmp_path}"}
    done = pytest_of(ABSENT, tmp_path, plugin="absent", **{FORBID: "1"}, **nowhere)
    assert done.returncode == 0, done.stdout
    assert "1 passed, 2 deselected" in done.stdout


def pytest_of(
    source: str, folder: Path, *, plugin: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A run of pytest over one file, with this repository's skips and another plugin."""
    (folder / "test_frob.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "skips", "-p", plugin]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "test_frob.py"],
        cwd=folder,
        env=os.environ | ALONE | environment,
        capture_output=True,
        text=True,
        check=False,
    )
