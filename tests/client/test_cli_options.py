"""Options that many commands share, the help, and the completion of shells."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner, Result

from client.fake_service import FakeService
from client.samples import numbers
from client.test_cli import ARGUMENTS, files
from opserve_client import Client, cli, cli_connection
from opserve_client.conform import command_line
from opserve_client.transports import MemoryTransport
from opserve_kernels.verdict.vendor.grade import STANDARDS

PROGRAM = Path(sys.executable).with_name("opserve")
WITHOUT_DATA = {
    *("serve", "warmup", "bootstrap", "demo", "release", "abi build", "conform", "conform send"),
    *("farm up", "farm scale", "farm drain", "farm down"),
    *("trace", "conform forget", "tenant delete", "certificate remove", "identity remove"),
}
"""Commands that run a program, print only a key or only JSON, or print nothing."""


@pytest.fixture(autouse=True)
def memory(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    def client(_: str, **__: object) -> Client:
        return Client(transport=MemoryTransport(fake))

    monkeypatch.setattr(cli_connection, "Client", client)


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command below a group, by its words."""
    below: Mapping[str, Any] = getattr(command, "commands", {})
    for name, one in below.items():
        yield from commands(one, f"{path} {name}".strip())
    if not below:
        yield path, command


def all_commands() -> dict[str, Any]:
    conform = commands(typer.main.get_command(command_line.app), "conform")
    return dict([*commands(typer.main.get_command(cli.app)), *conform])


def option(command: str, name: str) -> Any:
    (found,) = (one for one in all_commands()[command].params if name in one.opts)
    return found


def test_every_command_that_prints_data_has_json_with_the_same_meaning() -> None:
    options = {
        name: one.help
        for name, command in all_commands().items()
        for one in command.params
        if "--json" in one.opts
    }
    assert all_commands().keys() - options.keys() == WITHOUT_DATA
    assert set(options.values()) == {
        "Print one JSON document on standard output, and nothing else there."
    }


def test_output_is_an_option_of_commands_that_write_a_file() -> None:
    found = {n for n, c in all_commands().items() for one in c.params if "--output" in one.opts}
    assert found == {"run", "trace", "conform cases"}


def test_devices_and_operators_are_json_with_every_member() -> None:
    (device,) = json.loads(invoke("devices", "--json").stdout)
    assert device["name"] == "ascend910b-0"
    assert device["exclusive"] is False, "a default is there too"
    assert json.loads(invoke("operators", "--json").stdout) == []


def test_a_run_describes_its_outputs_in_json(tmp_path: Path) -> None:
    arguments, arrays, output = files(tmp_path, ARGUMENTS, dy=numbers(4, 6))
    result = invoke("run", "aclnnIm2colBackward", arguments, arrays, "-o", output, "--json")
    assert json.loads(result.stdout) == [{"output": "out", "shape": [4, 2, 3], "dtype": "FLOAT"}]


@pytest.mark.parametrize("first", ["--json", "--csv"])
def test_json_and_csv_exclude_each_other_before_the_service_is_called(
    fake: FakeService, first: str
) -> None:
    second = "--csv" if first == "--json" else "--json"
    result = invoke("key", "create", "lab", "ci", first, second)
    assert result.exit_code == 2
    assert "--json and --csv exclude each other." in result.output
    assert fake.calls == []


@pytest.mark.parametrize("name", ["o.txt", "o", "o.npy"])
def test_results_are_not_written_to_a_file_with_another_suffix(
    fake: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    arguments, arrays, _ = files(tmp_path, ARGUMENTS, dy=numbers(4, 6))
    result = invoke("run", "aclnnIm2colBackward", arguments, arrays, "-o", name)
    assert result.exit_code == 2
    assert f"{name} does not end in .npz: choose a name that does." in result.output
    assert fake.calls == []
    assert not Path(name).exists()


def test_serve_is_the_first_command_of_the_help_and_each_has_a_panel() -> None:
    program: Any = typer.main.get_command(cli.app)
    assert next(iter(program.commands)) == "serve"
    assert all(one.rich_help_panel for one in program.commands.values())
    result = invoke("--help")
    panels = ["Service", "Calls", "Verdicts", "Administration"]
    places = [result.output.index(f" {panel} ") for panel in panels]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["opserve", "s"], ["serve"]),
        pytest.param(["opserve", "key", ""], ["create", "list", "revoke"], marks=pytest.mark.slow),
        pytest.param(["opserve", "conform", "co"], ["compare"], marks=pytest.mark.slow),
        (["opserve", "conform", "run", "--sta"], ["--standard"]),
    ],
)
def test_a_shell_completes_commands_and_options(words: list[str], expected: list[str]) -> None:
    variables = {
        "_OPSERVE_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [PROGRAM], env=os.environ | variables, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == expected


def test_the_completion_of_a_shell_can_be_shown_and_installed() -> None:
    shown = invoke("--help").output
    assert "--show-completion" in shown
    assert "--install-completion" in shown


def test_the_help_of_standards_and_gates_names_their_values_and_defaults() -> None:
    text = option("conform run", "--standard").help
    assert len(STANDARDS) == 17
    assert text.endswith(f"Default: none. Standards: {', '.join(STANDARDS)}.")
    assert "--standard" in option("conform run", "--gate").help


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((f"conform {command}", "--seed") for command in ("run", "verify", "cases", "repro")),
        *((f"conform {command}", "--server") for command in ("run", "verify", "repro")),
        *(("conform run", name) for name in ("--standard", "--gate")),
        ("conform cases", "--output"),
        *((command, "--force") for command in ("bootstrap", "release", "key revoke")),
        ("tenant update", "--force"),
    ],
)
def test_the_help_of_an_option_states_its_default(command: str, name: str) -> None:
    assert "Default: " in option(command, name).help


def test_the_help_of_compare_defines_runs_drifts_and_exit_statuses() -> None:
    text = " ".join(all_commands()["conform compare"].help.split())
    for part in ("record file", "drift is", "exit status is 1", "2 if a run cannot be read"):
        assert part in text


def test_no_two_parameters_of_a_command_have_one_name() -> None:
    """An option of the connection would take the value of an argument with its name."""
    names = {n: [one.name for one in command.params] for n, command in all_commands().items()}
    assert {name for name, found in names.items() if len(found) != len(set(found))} == set()


def test_the_command_line_starts_without_modules_that_one_command_needs() -> None:
    late = {"opserve_client.conform", "opserve_client.apply", "pydantic", "ruamel.yaml", "grpc"}
    program = "import sys, opserve_client.cli; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not late & set(done.stdout.split())
