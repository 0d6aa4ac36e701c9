"""The templates for pipelines: they are YAML, and their commands are ones that opserve takes."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from opserve_client.cli_connection import ConnectionOptions
from opserve_client.conform import command_line
from opserve_client.conform.options import Options, Outputs

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


def commands(name: str) -> list[list[str]]:
    yaml: Any = YAML(typ="safe")
    document: Document = yaml.load((FOLDER / name).read_text())
    lines = [text for text in texts(document) if text.startswith("opserve ")]
    chosen = "${{ github.event_name == 'schedule' && 'standard' || 'smoke' }}"
    return [shlex.split(line.replace(chosen, "smoke")) for line in lines]


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


def test_every_template_is_tried() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == ["github-actions.yml", "gitlab-ci.yml"]
