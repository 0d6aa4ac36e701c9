"""The examples of docs/tutorial/first-verdict.md and then of docs/how-to/conformance.md."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.service_with_keys import empty_store
from opserve_client.conform.record import read_record, record_path
from opserve_client.private_service import Addresses, private_service

pytestmark = [pytest.mark.system, pytest.mark.slow]
DOCS = Path(__file__).parents[3] / "docs"
TUTORIAL, GUIDE = DOCS / "tutorial/first-verdict.md", DOCS / "how-to/conformance.md"
PREFIX = """
opserve() { python -c 'from opserve_client.cli import main; main()' "$@"; }
pytest() { python -m pytest -p opserve_pytest -p no:cacheprovider --rootdir . "$@"; }
"""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Addresses]:
    url = empty_store(tmp_path)
    with private_service(devices='["ascend910b", "reference"]', store_url=url) as addresses:
        yield addresses


def test_the_examples_run(kept: Addresses, tmp_path: Path) -> None:
    run_page(TUTORIAL, kept, tmp_path)
    assert (tmp_path / "report.html").exists()
    statuses = statuses_of(tmp_path / "wrong-run")
    assert 0 < statuses["FAILED"] < statuses["PASSED"]
    assert statuses_of(tmp_path / "first-run")["FAILED"] == 0
    assert "wrong" not in run_page(GUIDE, kept, tmp_path)


def statuses_of(folder: Path) -> Counter[str]:
    return read_record(record_path(folder)).tally.counts


def run_page(page: Path, service: Addresses, folder: Path) -> str:
    """Saves the programs of a page and runs its commands; returns what they print."""
    for block in blocks(page, "python"):
        name = block.split("\n", 1)[0].removeprefix("# ")
        (folder / name).write_text(block)
    script = PREFIX + "".join(blocks(page, "sh")).replace("127.0.0.1:50051", service.grpc)
    for name in ("run", "verify", "repro"):
        script = script.replace(f"conform {name} ", f"conform {name} --server {service.grpc} ")
    script = script.replace("pytest --opserve", f"pytest --opserve-server={service.grpc} --opserve")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {
        "PATH": path,
        "PYTHONPATH": os.pathsep.join(one for one in sys.path if one),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
