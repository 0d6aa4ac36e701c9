"""Private services: signals of a terminal."""

import signal
import subprocess
from pathlib import Path

import pytest

from opserve_client.private_service import private_service

pytestmark = pytest.mark.system


def test_ctrl_c_in_a_terminal_reaches_a_private_service_through_its_parent_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen[bytes]

    def recorded(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", recorded)
    with private_service(devices='["reference"]'):
        threads = Path(f"/proc/{started[0].pid}/task").glob("*/status")
        lines = [line for one in threads for line in one.read_text(encoding="utf-8").splitlines()]
    blocked = [int(line.split()[1], 16) for line in lines if line.startswith("SigBlk")]
    assert len(blocked) > 1
    assert all(mask & 1 << (signal.SIGINT - 1) for mask in blocked)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert started[0].returncode == 0
