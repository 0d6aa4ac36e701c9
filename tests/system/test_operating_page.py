"""The commands of docs/how-to/operating.md run; settings and metrics on it and its pages exist."""

import re
from pathlib import Path

import pytest

from opserve_server.core.tenants import Resource
from opserve_server.settings import PREFIX, Settings
from opserve_server.telemetry.metrics import Metrics
from test_examples import blocks, run_shell

pytestmark = pytest.mark.system
DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS / "how-to/operating.md", DOCS / "reference/capacity.md"]
TEXT = "".join(page.read_text() for page in PAGES)


@pytest.mark.slow
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    examples = blocks("docs/how-to/operating.md", "sh")
    assert len(examples) == 4
    run_shell("".join(examples), tmp_path)
    assert (tmp_path / "backup.db").stat().st_size > 0


def test_every_setting_that_the_page_names_exists() -> None:
    named = {name.lower() for name in re.findall(rf"{PREFIX}([A-Z_]+)", TEXT)}
    named |= set(re.findall(r"`(\w+_(?:s|limit|bytes))`", TEXT))
    metrics = {name for name in named if name.startswith("opserve_")}
    assert named - metrics - set(Settings.model_fields) - set(Resource) == set()
    assert len(named) > 10


def test_every_metric_that_the_page_names_exists() -> None:
    named = set(re.findall(r"opserve_[a-z_]+", TEXT)) - {"opserve_server"}
    known = (DOCS / "reference/metrics.md").read_text()
    written = Metrics().page().decode() + known + "opserve_audit_dropped_total"
    assert {name for name in named if name not in written} == set()
