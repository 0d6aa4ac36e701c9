"""The templates for pipelines: they are YAML, and their commands are ones that opserve takes."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from ruamel.yaml import YAML

from opserve_client.cli_connection import ConnectionOptions
from opserve_client.conform import command_line
from opserve_client.conform import options as options_module
from opserve_client.conform.options import Options, Outputs
from opserve_client.conform.targets.target import InfrastructureError

FOLDER = Path(__file__).parents[3] / "docs" / "ci"
CONNECTION = ConnectionOptions(allow_plaintext=False)


Document = str | dict[str, "Document"] | list["Document"] | None


def texts(value: Document) -> Iterator[str]:
    """Every text in a document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from texts(member)
    elif isinstance(value, list):
        for entry in value:
            yield from texts(entry)


def shell_lines(name: str) -> list[str]:
    """The lines that the shell of a job runs at a push, in their order."""
    yaml: Any = YAML(typ="safe")
    document: Document = yaml.load((FOLDER / name).read_text())
    programs = ("pip ", "make ", "opserve ")
    chosen = "${{ github.event_name == 'schedule' && 'standard' || 'smoke' }}"
    return [text.replace(chosen, "smoke") for text in texts(document) if text.startswith(programs)]


def commands(name: str) -> list[list[str]]:
    return [shlex.split(line) for line in shell_lines(name) if line.startswith("opserve ")]


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml"])
def test_commands_of_a_template_are_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Options, Outputs]] = []

    def run_and_report(options: Options, outputs: Outputs, _: object) -> int:
        asked.append((options, outputs))
        return 0

    monkeypatch.setattr(command_line, "run_and_report", run_and_report)
    for program, group, *arguments in commands(name):
        assert (program, group) == ("opserve", "conform")
        with pytest.raises(SystemExit) as ended:
            command_line.main(arguments, CONNECTION)
        assert ended.value.code == 0
    ((options, outputs),) = asked
    assert options.suite == "smoke"
    assert outputs.files.junit == Path("conformance-run/junit.xml")
    assert options.record_options.folder == Path("conformance-run")


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml"])
def test_the_shell_lines_of_a_template_run_in_a_repository_with_the_wheel(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/opserve-1.2.3-py3-none-any.whl").touch()
    for program in ("pip", "make", "opserve"):
        stub = tmp_path / "bin" / program
        stub.parent.mkdir(exist_ok=True)
        stub.write_text('#!/bin/sh\nprintf "%s|" "${0##*/}" "$@" >> log; echo >> log\n')
        stub.chmod(0o755)
    script = "\n".join(["set -eu", *shell_lines(name)])
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [shutil.which("bash") or "", "-c", script], cwd=tmp_path, env={"PATH": path}, check=True
    )
    pip, *_, opserve = (tmp_path / "log").read_text().splitlines()
    assert pip == "pip|install|wheels/opserve-1.2.3-py3-none-any.whl[server]|"
    assert opserve.split("|")[:-1] == commands(name)[0]


@pytest.mark.parametrize("name", ["github-actions.yml", "gitlab-ci.yml"])
def test_a_template_needs_no_file_besides_the_wheel_and_the_kernel(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The run reads all its files before the first case."""

    def read_all(*_: object) -> NoReturn:
        raise InfrastructureError("all files are read")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(options_module, "run_suite", read_all)
    written: list[str] = []
    monkeypatch.setattr(sys.stderr, "write", written.append)
    for _, _, *arguments in commands(name):
        with pytest.raises(SystemExit):
            command_line.main(arguments, CONNECTION)
    assert written == ["opserve conform: all files are read\n"]


def test_every_template_is_tried() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == ["github-actions.yml", "gitlab-ci.yml"]
