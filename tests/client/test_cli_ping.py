"""opserve ping and opserve trace."""

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from client.fake_service import FakeService
from opserve_client import Client, cli, cli_connection, cli_ping
from opserve_client.errors import AuthenticationError, PermissionDeniedError, unreachable
from opserve_client.private_service import Addresses
from opserve_client.transports import MemoryTransport
from system.test_administration import CALL

NO_KEY = AuthenticationError("this service needs a key", code=207006, name="NO_PERMISSION")
NO_SCOPE = PermissionDeniedError("the key lacks the scope operate", code=207006)


@pytest.fixture
def seen_without_key() -> FakeService:
    """The service as a caller without a key sees it."""
    service = FakeService()
    service.failures["ListDevices"] = [NO_KEY]
    return service


@pytest.fixture
def fake_farm(
    fake: FakeService, seen_without_key: FakeService, monkeypatch: pytest.MonkeyPatch
) -> FakeService:
    def client(_: str, *, api_key: str | None, **__: object) -> Client:
        return Client(transport=MemoryTransport(seen_without_key if api_key == "" else fake))

    monkeypatch.delenv("OPSERVE_API_KEY", raising=False)
    monkeypatch.setattr(cli_connection, "Client", client)
    return fake


def invoke(*arguments: str | Path, given: str | None = None) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments], input=given)


def ticks() -> Iterator[float]:
    """Times around calls of 1, 2, ... ms, of which the last ones are slow."""
    now = 0.0
    for duration_ms in (1, 2, 3, 4, 5, 6, 7, 800, 900):
        yield now
        now += duration_ms / 1e3
        yield now


def test_a_ping_shows_version_latency_and_access(
    fake_farm: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_ping, "perf_counter", ticks().__next__)
    result = invoke("ping", "grpcs://farm:50051", "--api-key", "opk_1", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {
        "address": "grpcs://farm:50051",
        "api": "gRPC",
        "tls": True,
        "reachable": True,
        "key": "accepted",
        "version": "1.2.3",
        "latency_ms": 5.0,
    }
    assert fake_farm.calls == ["ListDevices"] * 10


def test_a_key_that_the_service_does_not_check_is_not_called_accepted(
    fake_farm: FakeService, seen_without_key: FakeService
) -> None:
    seen_without_key.failures.clear()
    for arguments in (("farm:50051",), ("--address", "farm:50051")):
        result = invoke("ping", *arguments, "--api-key", "opk_1", "--allow-plaintext", "--json")
        printed = json.loads(result.stdout)
        assert (printed["address"], printed["key"]) == ("farm:50051", "not required")
    assert fake_farm.calls == ["ListDevices"] * 20


def test_a_ping_is_a_row_for_people(fake_farm: FakeService) -> None:
    fake_farm.version = ""
    lines = invoke("ping").stdout.splitlines()
    head, row = (re.split(" {2,}", line.strip()) for line in lines)
    assert head == ["address", "api", "tls", "reachable", "key", "version", "latency_ms"]
    address, api, *state, latency_ms = row
    assert (address, api) == ("127.0.0.1:50051", "gRPC")
    assert state == ["no", "yes", "not required", "-"], "a service before 0.3 has no version"
    assert float(latency_ms) >= 0


@pytest.mark.parametrize(
    ("error", "key", "reachable", "state"),
    [
        (NO_KEY, "", True, "missing"),
        (NO_KEY, "opk_1", True, "rejected"),
        (NO_SCOPE, "opk_1", True, "without the scope operate"),
        (unreachable("no connection"), "opk_1", False, None),
    ],
)
def test_a_ping_that_fails_is_one_sentence_with_status_1(
    fake_farm: FakeService, error: Exception, key: str, reachable: bool, state: str | None
) -> None:
    options = ["--api-key", key] if key else []
    fake_farm.failures["ListDevices"] = [error]
    result = invoke("ping", "grpcs://farm:50051", *options)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"opserve: {error}\n"
    fake_farm.failures["ListDevices"] = [error]
    result = invoke("ping", "grpcs://farm:50051", *options, "--json")
    assert (result.exit_code, result.stderr) == (1, f"opserve: {error}\n")
    printed = json.loads(result.stdout)
    assert (printed["reachable"], printed["key"], printed["latency_ms"]) == (reachable, state, None)


@pytest.mark.system
def test_a_ping_works_over_both_wires(service: Addresses) -> None:
    for address, api in ((service.grpc, "gRPC"), (service.rest, "Connect")):
        printed = json.loads(invoke("ping", address, "--json").stdout)
        assert (printed["api"], printed["version"]) == (api, version("opserve"))
        assert printed["latency_ms"] > 0


@pytest.mark.system
def test_a_trace_is_written_of_an_open_session(service: Addresses, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with Client(service.rest) as client, client.open_session() as session:
        session.run(CALL)
        at = ("--address", service.grpc)
        assert invoke("trace", session.name, "-o", path, *at).exit_code == 0
        piped = invoke("trace", "-", "--stream", "0", *at, given=f"{session.name}\n")
        unknown = invoke("trace", session.name, "--stream", "7", *at)
        assert client.get_trace(session.name) == session.trace()
    whole = json.loads(path.read_text())["traceEvents"]
    part = json.loads(piped.stdout)["traceEvents"]
    assert {"kernel", "copy"} <= categories(whole)
    assert categories(part) == {"kernel"}
    assert "stream does not accept 7; it accepts a stream of the session: 0" in str(
        unknown.exception
    )


def categories(events: list[dict[str, Any]]) -> set[str]:
    return {event["cat"] for event in events if event["ph"] == "X"}


@pytest.mark.system
def test_a_trace_of_an_unknown_session_is_one_sentence(
    service: Addresses, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["opserve", "trace", "no", "--address", service.grpc])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.count("\n") == 1
