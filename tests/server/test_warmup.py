"""`opserve warmup`, and the reports of a service while kernels are compiled."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from opserve_client import cli
from opserve_kernels.loop_cache import base_folder
from opserve_kernels.registry import kernels_of
from opserve_server import first_start, warmup


def warm_up(**environment: str) -> subprocess.CompletedProcess[str]:
    """Warms up one kernel: all take seconds to load."""
    kernel = kernels_of("ascend910b")["im2col_backward"]
    return subprocess.run(
        [sys.executable, "-m", "opserve_server.warmup", kernel],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_becomes_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    execve = mock.Mock()
    monkeypatch.setattr(os, "execve", execve)

    assert CliRunner().invoke(cli.app, ["warmup"]).exit_code == 0

    command = [sys.executable, "-P", "-m", "opserve_server.warmup"]
    execve.assert_called_once_with(sys.executable, command, dict(os.environ))


def test_an_interrupted_warmup_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["warmup"])
    monkeypatch.setattr(warmup, "compiled", mock.Mock(side_effect=KeyboardInterrupt))
    assert warmup.main() == 130
    assert "interrupted; the next start compiles what is missing" in capsys.readouterr().out


@pytest.mark.system
def test_warmup_finds_compiled_kernels_and_prints_their_folder() -> None:
    done = warm_up()

    assert done.returncode == 0, done.stderr
    assert "modules compiled in" in done.stdout
    assert str(base_folder()) in done.stdout


@pytest.mark.system
def test_warmup_says_in_a_line_when_kernels_cannot_be_kept(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = warm_up(NUMBA_CACHE_DIR=str(file))

    assert done.returncode == 1
    assert done.stderr.startswith("opserve: ")
    assert done.stderr.count("\n") == 1
    assert "NUMBA_CACHE_DIR" in done.stderr


@pytest.mark.slow
@pytest.mark.system
def test_a_service_ends_when_its_kernels_cannot_be_kept(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    settings = {
        "OPSERVE_GRPC_ADDRESS": "127.0.0.1:0",
        "OPSERVE_REST_ADDRESS": "127.0.0.1:0",
        "OPSERVE_NO_KEYS": "true",
        "NUMBA_CACHE_DIR": str(file),
    }
    done = subprocess.run(
        [sys.executable, "-m", "opserve_server"],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "NUMBA_CACHE_DIR chooses another folder" in done.stderr
    assert done.stderr.splitlines()[-1] == "opserve: kernels: they cannot be compiled; see the log"


async def test_a_start_reports_the_progress_of_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    folders[0].mkdir()
    monkeypatch.setattr(first_start, "_INTERVAL_S", 0)
    caplog.set_level("INFO")

    telling = asyncio.create_task(first_start._tell_of_compiling(folders))
    await asyncio.sleep(0)
    folders[1].mkdir()
    await telling

    assert caplog.messages[0] == "compiling kernels, once: 1 of 2 modules"
