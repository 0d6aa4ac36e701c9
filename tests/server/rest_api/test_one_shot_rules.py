"""Accuracy and documented rules of one-shot calls, and the warnings in their answers."""

import json
from dataclasses import asdict, replace

import httpx2
import pytest

from opserve_server.core import results
from opserve_server.core.session_request import SessionRequest
from server.core import every_command as core
from server.recording import RESULTS, WARNING, RecordingService
from server.rest_api.test_one_shot import ARGUMENTS, DY, RUN, W, X, npz, run


async def test_accuracy_and_documented_rules_of_a_call_are_those_of_its_session(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    choices = {"accuracy": "fast", "documented_rules": "warn"}
    args = json.dumps({"arguments": ARGUMENTS, **choices})
    files = {"args": ("args.json", args.encode()), "tensors": ("in.npz", npz(dy=DY, x=X, w=W))}
    response = await client.post(RUN, files=files)
    assert response.status_code == 200, response.text
    asked = SessionRequest(accuracy="fast", documented_rules="warn")
    assert service.others[0] == ("open_session", asked, "")


async def test_broken_rules_are_listed_in_a_header_of_ascii(client: httpx2.AsyncClient) -> None:
    response = await run(client)
    header = response.headers["x-opserve-warnings"]
    assert header.isascii()
    assert json.loads(header) == [asdict(WARNING)]


async def test_a_header_of_many_warnings_is_bounded_and_counts_those_left_out(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = replace(WARNING, sentence="必" * 400)
    planned = results.Planned(workspace_size=512, executor=9, warnings=(long,) * 30)
    monkeypatch.setitem(RESULTS, core.GetWorkspaceSize, planned)
    response = await run(client)
    header = response.headers["x-opserve-warnings"]
    *listed, last = json.loads(header)
    assert len(header) <= 8192
    assert listed
    assert listed == [asdict(long)] * len(listed)
    assert last == {"left_out": 30 - len(listed)}


async def test_a_call_that_breaks_no_rule_has_no_header_of_warnings(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = results.Planned(workspace_size=512, executor=9)
    monkeypatch.setitem(RESULTS, core.GetWorkspaceSize, planned)
    response = await run(client)
    assert "x-opserve-warnings" not in response.headers
