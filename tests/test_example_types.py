"""The Python of the README and the tutorials passes mypy --strict."""

import subprocess
import sys
from pathlib import Path

import pytest

from test_examples import blocks, pages_with

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *(page for page in pages_with("python") if page.startswith("docs/tutorial/"))]


def test_the_tutorials_have_examples() -> None:
    assert len(PAGES) == 4


@pytest.mark.slow
def test_the_examples_of_the_readme_and_the_tutorials_pass_mypy_strict(tmp_path: Path) -> None:
    for page in PAGES:
        for number, block in enumerate(blocks(page, "python")):
            name = f"{page.replace('/', '_').replace('-', '_').removesuffix('.md')}_{number}.py"
            (tmp_path / name).write_text(block)
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\n")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "mypy.ini",
        *sorted(path.name for path in tmp_path.glob("*.py")),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
