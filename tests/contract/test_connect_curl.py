"""`curl` with JSON calls every RPC that does not stream its requests."""

import shutil
import subprocess
from pathlib import Path

import pytest

from opserve_client.private_service import Addresses
from server.connect_api.frames import framed
from server.entry_points import every_rpc
from skips import needs_program

pytestmark = pytest.mark.system
RPCS = [rpc for rpc in every_rpc() if not rpc.client_streaming]


@needs_program("curl", there=shutil.which("curl") is not None, package="curl")
def test_curl_calls_every_rpc(service: Addresses, tmp_path: Path) -> None:
    (tmp_path / "framed").write_bytes(framed(b"{}"))
    arguments: list[str] = []
    expected: list[str] = []
    for rpc in RPCS:
        path = f"/{rpc.containing_service.full_name}/{rpc.name}"
        form = "application/connect+json" if rpc.server_streaming else "application/json"
        body = ["--data-binary", "@framed"] if rpc.server_streaming else ["-d", "{}"]
        if rpc.name == "Watch":  # which the service would end after ten minutes
            body += ["-H", "Connect-Timeout-Ms: 100"]
        written = ["-o", rpc.name, "-w", f"{rpc.name} %{{content_type}} %{{http_code}}\n"]
        arguments += [f"{service.rest}{path}", "-H", f"Content-Type: {form}", *body, *written]
        arguments += ["--next", "-sS"]
        expected.append(f"{rpc.name} {form}")
    command = ["curl", "-sS", *arguments[:-2]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = [line.rpartition(" ") for line in done.stdout.splitlines()]
    assert [line for line, _, _ in lines] == expected
    # Many requests are not complete, but none is unknown, in a wrong form, or a fault.
    assert {status for _, _, status in lines} <= {"200", "400", "403", "404", "429", "501"}
    assert "devices" in (tmp_path / "ListDevices").read_text()
