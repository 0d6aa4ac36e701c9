"""Every example of docs/how-to/conformance.md, in the order of the page."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.service_with_keys import empty_store
from opserve_client.private_service import Addresses, private_service

pytestmark = [pytest.mark.system, pytest.mark.slow]
PAGE = Path(__file__).parents[3] / "docs/how-to/conformance.md"
PREFIX = """
opserve() { python -c 'from opserve_client.cli import main; main()' "$@"; }
pytest() { python -m pytest -p opserve_pytest -p no:cacheprovider --rootdir . "$@"; }
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Addresses]:
    url = empty_store(tmp_path)
    with private_service(devices='["ascend910b", "reference"]', store_url=url) as addresses:
        yield addresses


def test_the_examples_run(kept: Addresses, tmp_path: Path) -> None:
    for block in blocks("python"):
        name = block.split("\n", 1)[0].removeprefix("# ")
        (tmp_path / name).write_text(block)
    script = PREFIX + "".join(blocks("sh")).replace("127.0.0.1:50051", kept.grpc)
    for name in ("run", "verify", "repro"):
        script = script.replace(f"conform {name} ", f"conform {name} --server {kept.grpc} ")
    script = script.replace("pytest --opserve", f"pytest --opserve-server={kept.grpc} --opserve")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {
        "PATH": path,
        "PYTHONPATH": os.pathsep.join(one for one in sys.path if one),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "report.html").exists()
    assert "wrong" not in done.stdout
