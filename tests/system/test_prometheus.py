"""The Grafana dashboard and the alerts name metrics that exist, and a real Prometheus answers."""

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from ruamel.yaml import YAML

from benchmarks.service_with_keys import ServiceWithKeys, service_with_keys
from opserve_client import Client, Im2colBackward, QuotaExceeded
from opserve_server.core.tenants import Quota, Tenant
from opserve_server.telemetry.families import FAMILIES
from skips import needs_program
from tools.grafana import DASHBOARD, dashboard, expressions

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "prometheus"
PROGRAMS = {name: shutil.which(name) for name in ("prometheus", "promtool")}
PROMETHEUS, PROMTOOL = (PROGRAMS[name] or "" for name in ("prometheus", "promtool"))
needs_prometheus = needs_program("Prometheus", there=all(PROGRAMS.values()), package="prometheus")
NAME = re.compile(r"\bopserve_\w+")
VARIABLES = {"$device": ".*", "$profile": ".*", "$tenant": ".*", "$__rate_interval": "1m"}
CALL = Im2colBackward(
    grad_output=np.ones((1, 64, 196), np.float32),
    input_size=[15, 15],
    kernel_size=[2, 2],
    dilation=[1, 1],
    padding=[0, 0],
    stride=[1, 1],
)


def alerts() -> dict[str, str]:
    """The expression of every alert by its name."""
    yaml: Any = YAML(typ="safe")
    document = yaml.load((FOLDER / "alerts.yml").read_text())
    return {rule["alert"]: rule["expr"] for group in document["groups"] for rule in group["rules"]}


def with_values(expression: str) -> str:
    """An expression with values in place of Grafana's variables."""
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


def names_in(expression: str) -> set[str]:
    return set(NAME.findall(re.sub(r"\{[^}]*\}", "", expression)))


def test_every_panel_has_a_number_of_its_own_and_a_source() -> None:
    written = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in written["panels"]]
    assert len(set(ids)) == len(ids) > 20
    assert all(panel["datasource"] for panel in written["panels"] if panel["type"] != "row")


def test_panels_do_not_overlap() -> None:
    taken = set[tuple[int, int]]()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + row)
            for column in range(place["w"])
            for row in range(place["h"])
        }
        assert not taken & cells, panel["title"]
        assert max(column for column, _ in cells) < 24
        taken |= cells


def test_every_metric_is_in_a_panel() -> None:
    shown = {name for expression in expressions() for name in names_in(expression)}
    found = {
        f"opserve_{name}{end}" for name in FAMILIES for end in ("", "_total", "_bucket")
    } & shown
    assert found == shown
    assert len(found) == len(FAMILIES)


@needs_prometheus
@pytest.mark.parametrize(
    "call", [["check", "config", "scrape.yml"], ["test", "rules", "alerts_test.yml"]]
)
def test_alerts_are_those_that_promtool_accepts_and_tests(call: list[str]) -> None:
    ended = subprocess.run(
        [PROMTOOL, *call], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_alert_has_a_test_and_a_line_in_the_guide() -> None:
    tested = (FOLDER / "alerts_test.yml").read_text()
    guide = (ROOT / "docs" / "how-to" / "operating.md").read_text()
    for name in alerts():
        assert f"alertname: {name}" in tested
        assert f"`{name}`" in guide


@dataclass(frozen=True, slots=True)
class Scraped:
    """A service with work, and a Prometheus that reads its metrics each second."""

    service: ServiceWithKeys
    prometheus: str

    def query(self, expression: str) -> list[Any]:
        """The samples of an expression."""
        answer = httpx2.get(f"{self.prometheus}/api/v1/query", params={"query": expression})
        assert answer.status_code == 200, answer.text
        found: list[Any] = answer.json()["data"]["result"]
        return found


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Generator[Scraped]:
    folder = tmp_path_factory.mktemp("prometheus")
    tenants = [Tenant(name="lab", quota=Quota(sessions=2))]
    with ExitStack() as stack:
        service = stack.enter_context(service_with_keys(tenants, devices='["ascend910b"]'))
        stack.enter_context(work(service))
        address = free_address()
        target = service.addresses.rest.removeprefix("http://")
        scrape = (FOLDER / "scrape.yml").read_text().replace("127.0.0.1:8080", target)
        assert target in scrape
        key = folder / "opserve.key"
        key.write_text(service.keys["lab"])
        scrape = scrape.replace("scrape_interval: 15s", "scrape_interval: 1s")
        scrape = scrape.replace("    # authorization:\n    #   ", "    authorization:\n      ")
        scrape = scrape.replace("/etc/prometheus/opserve.key", str(key))
        (folder / "scrape.yml").write_text(scrape)
        shutil.copy(FOLDER / "alerts.yml", folder)
        options = [
            f"--config.file={folder / 'scrape.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
        ]
        command = [PROMETHEUS, *options, f"--web.listen-address={address}"]
        process = stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
        stack.callback(process.terminate)
        made = Scraped(service, f"http://{address}")
        wait_for_scrapes(made, process)
        yield made


def work(service: ServiceWithKeys) -> ExitStack:
    """Calls, a rejected one, and sessions, which last to the end of the block."""
    stack = ExitStack()
    for address in (service.addresses.grpc, service.addresses.rest):
        client = stack.enter_context(Client(address, api_key=service.keys["lab"]))
        session = stack.enter_context(client.open_session())
        for _ in range(5):
            session.run(CALL)
        buffer = session.allocate(2**20)
        buffer.write(bytes(2**20))
        buffer.read()
    with (
        Client(service.addresses.grpc, api_key=service.keys["lab"]) as client,
        pytest.raises(QuotaExceeded),
    ):
        client.open_session().__enter__()
    return stack


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def wait_for_scrapes(scraped: Scraped, process: "subprocess.Popen[bytes]") -> None:
    """Waits until each rate has two samples."""
    while True:
        assert process.poll() is None, "Prometheus ended"
        try:
            if scraped.query("rate(opserve_device_busy_seconds_total[1m])"):
                return
        except (httpx2.TransportError, AssertionError):
            continue


@needs_prometheus
@pytest.mark.slow
@pytest.mark.system
def test_every_panel_has_samples_of_metrics_that_the_page_has(scraped: Scraped) -> None:
    headers = {"Authorization": f"Bearer {scraped.service.keys['lab']}"}
    page = httpx2.get(f"{scraped.service.addresses.rest}/metrics", headers=headers).text
    for expression in expressions():
        for name in names_in(expression):
            assert f"\n{name}" in page, name
        assert scraped.query(with_values(expression)), expression


@needs_prometheus
@pytest.mark.slow
@pytest.mark.system
def test_the_metrics_of_alerts_are_on_the_page_and_none_fires(scraped: Scraped) -> None:
    for name, expression in alerts().items():
        for metric in names_in(expression):
            assert scraped.query(metric), metric
        assert scraped.query(expression) == [], name
