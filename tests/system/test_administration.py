"""The whole path of an operator: the commands of the page, and what a tenant's client sees."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opserve_client import AuthenticationError, Client, Im2colBackward
from opserve_client.errors import QuotaExceeded

pytestmark = pytest.mark.system
ROOT = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).with_name("opserve")
SETTINGS = {
    "OPSERVE_GRPC_ADDRESS": "127.0.0.1:0",
    "OPSERVE_REST_ADDRESS": "127.0.0.1:0",
    "OPSERVE_DEVICES": '["ascend910b"]',
    "OPSERVE_DEVICE_MEMORY_BYTES": str(2**26),
    "OPSERVE_SLAB_BYTES": str(2**20),
}
CALL = Im2colBackward(
    grad_output=np.ones((1, 4, 4), np.float32),
    input_size=[3, 3],
    kernel_size=[2, 2],
    dilation=[1, 1],
    padding=[0, 0],
    stride=[1, 1],
)


# A session's first process that opens a terminal gets its Ctrl-C. A shell that runs the tests in
# the background has its children ignore it.
AT_TERMINAL = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
terminal = os.open(sys.argv[1], os.O_RDWR)
for stream in range(3):
    os.dup2(terminal, stream)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Operator:
    """An operator at a terminal, whose environment has the store and a key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = ""
        store = {"OPSERVE_STORE_URL": f"sqlite:///{folder / 'farm.db'}"}
        self.environment = {
            **{k: v for k, v in os.environ.items() if k != "OPSERVE_API_KEY"},
            **SETTINGS,
            **store,
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command."""
        address = [] if arguments[0] == "bootstrap" else ["--address", self.address]
        command = [str(PROGRAM), *arguments, *address]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def output_of(self, *arguments: str) -> str:
        """The output of a command that succeeds."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """The rows of a command in JSON."""
        rows: list[dict[str, Any]] = json.loads(self.output_of(*arguments, "--json"))
        return rows


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    """An operator with a bootstrapped, running service."""
    at_terminal = Operator(tmp_path)
    at_terminal.environment["OPSERVE_API_KEY"] = at_terminal.output_of("bootstrap").strip()
    service = subprocess.Popen(
        [sys.executable, "-m", "opserve_server"],
        env=at_terminal.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert service.stdout is not None
        ready = json.loads(service.stdout.readline())
        assert ready["keys"]
        at_terminal.address = ready["grpc"]
        yield at_terminal
    finally:
        service.terminate()
        service.communicate(timeout=300)


@pytest.mark.slow
def test_an_operator_grants_and_revokes_the_share_of_a_tenant(operator: Operator) -> None:
    again = operator.run("bootstrap")
    assert (again.returncode, again.stdout) == (1, "")
    operator.output_of("tenant", "create", "lab", "--quota", "sessions=1")
    key = operator.output_of("key", "create", "lab", "ci").strip()
    with Client(operator.address, api_key=key) as client:
        with client.open_session() as session:
            assert session.run(CALL).out is not None
            with pytest.raises(QuotaExceeded) as caught:
                client.open_session().__enter__()
            assert (caught.value.parameter, caught.value.limit) == ("sessions", 1)
            (seen,) = operator.rows("who")
            assert session.name.startswith(seen["id"])
            assert seen["tenant"] == "lab"
        (row,) = operator.rows("usage", "lab")
        assert row["calls"] == 1
        assert row["device_s"] > 0
        page = operator.output_of("top", "--once")
        assert re.search(r"^lab +1 +[\d.e-]+ +100 +0 +0 +0 ", page, re.MULTILINE), page
        (known,) = operator.rows("key", "list", "lab")
        operator.output_of("key", "revoke", known["id"])
        with pytest.raises(AuthenticationError):
            client.list_devices()
    entries = operator.rows("audit")
    assert {entry["tenant"] for entry in entries} <= {"", "admin", "lab"}
    methods = [entry["method"] for entry in reversed(entries) if entry["outcome"] == "OK"]
    assert methods == [
        *("CreateTenant", "CreateKey", "CreateTenant", "CreateKey", "ListSessions"),
        *("ListUsage", "GetActivity", "ListTenants", "ListKeys", "RevokeKey"),
    ]
    assert key not in json.dumps(entries)


def test_top_shows_what_changes_in_a_terminal_and_leaves_it_at_ctrl_c(operator: Operator) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    opens = [sys.executable, "-c", AT_TERMINAL, os.ttyname(theirs)]
    top = [str(PROGRAM), "top", "--interval-s", "0.5", "--address", operator.address]
    environment = operator.environment | {"TERM": "xterm"}
    with subprocess.Popen([*opens, *top], env=environment, start_new_session=True) as process:
        first = read_until(ours, b"ascend910b-0")
        assert b"\x1b[?1049h" in first, "it has the whole screen"
        assert b"lab" not in first
        operator.output_of("tenant", "create", "lab")
        read_until(ours, b"lab")
        os.close(theirs)
        os.write(ours, b"\x03")
        left = read_until(ours, b"\x1b[?1049l")
        left += read_to_the_end(ours)
        assert process.wait() == 0
    os.close(ours)
    assert b"\x1b[?25h" in left, "there is a cursor again"
    assert b"Traceback" not in left
    assert b"Aborted" not in left


def read_until(terminal: int, wanted: bytes) -> bytes:
    """The output of a terminal up to a text; the time limit of the test ends it."""
    shown = b""
    while wanted not in shown:
        shown += os.read(terminal, 2**16)
    return shown


def read_to_the_end(terminal: int) -> bytes:
    """The remaining output of a terminal that no process has open, which ends in an error."""
    shown = b""
    with suppress(OSError):
        while True:
            shown += os.read(terminal, 2**16)
    return shown


@pytest.mark.slow
def test_the_commands_of_the_page_run(operator: Operator) -> None:
    page = (ROOT / "docs/how-to/administration.md").read_text()
    first, *blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert "bootstrap" in first
    commands = "".join(blocks).replace(".venv/bin/opserve", "opserve")
    function = f'opserve() {{ "{PROGRAM}" "$@" --address "{operator.address}"; }}\n'
    command = ["bash", "-euo", "pipefail", "-c", function + commands]
    done = subprocess.run(
        command,
        cwd=operator.folder,
        env=operator.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    limits = f"device_memory_bytes={2**29} sessions=2 calls_per_s=200"
    assert f"lab,3,0,False,{limits}" in done.stdout
    assert "URI:spiffe://farm/ci" in done.stdout
    assert "207006" in done.stderr, "the revoked key is refused"
    assert done.stdout.rstrip().splitlines()[-1].count("UNAUTHENTICATED") == 1
