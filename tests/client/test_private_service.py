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
        status = Path(f"/proc/{started[0].pid}/status").read_text(encoding="utf-8")
    (blocked,) = (int(line.split()[1], 16) for line in status.splitlines() if "SigBlk" in line)
    assert blocked & 1 << (signal.SIGINT - 1)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert started[0].returncode == 0
