"""Public names are on their page, and none of the previous release is removed without notice."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import opserve_client
from opserve_kernels.status import ExitStatus
from opserve_server.settings import RENAMED
from opserve_server.telemetry.families import FAMILIES
from previous_release import NAMES, REPOSITORY, VERSION
from tools.public_surface import names, telemetry
from tools.public_surface.page import ADVICE, PAGE, public_names, written
from tools.public_surface.python_names import MODULES, exports

PROTOCOLS = {"OperatorCall"}
"""Types of parameters that only classes of the client satisfy."""
EXPLAINED = {"docs/explanation/kernels.md"}
"""Pages on the inside of the product, whose examples use private names."""


def problems() -> str:
    """Missing and superfluous lines of the page; "" where it is fresh."""
    page = PAGE.read_text()
    now = written(page)
    if now == page:
        return ""
    added = sorted(set(now.splitlines()) - set(page.splitlines()))
    gone = sorted(set(page.splitlines()) - set(now.splitlines()))
    return "\n".join([f"{ADVICE}:", *(f"+ {one}" for one in added), *(f"- {one}" for one in gone)])


def rows_since_the_previous_release() -> list[tuple[str, str, str]]:
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    since, heading, _ = text.partition(f"## [{VERSION}]")
    assert heading, f"CHANGELOG.md has no release {VERSION}"
    return rows(since)


def rows(text: str) -> list[tuple[str, str, str]]:
    """Kind, old and new name in the tables Renamed of a text."""
    tables = re.findall(r"^### Renamed\n\n((?:\|.*\n)+)", text, re.MULTILINE)
    cells = [line.split("|") for table in tables for line in table.splitlines()[2:]]
    return [(kind.strip(), old.strip(" `"), new) for _, kind, old, new, _ in cells]


def covered(name: str, old_names: set[str]) -> bool:
    """Whether a row has the name, or what it belongs to."""
    return any(name == old or re.match(re.escape(old) + r"\W", name) for old in old_names)


def lost() -> list[str]:
    now = {name for _, name in public_names()}
    before = [line.partition("\t")[2] for line in NAMES.read_text().splitlines()]
    old_names = {old for _, old, _ in rows_since_the_previous_release()}
    return [name for name in before if name not in now and not covered(name, old_names)]


def test_the_page_has_every_public_name() -> None:
    assert not problems(), problems()


def test_a_removed_public_name_has_a_row_in_the_changelog() -> None:
    assert not lost(), f"{ADVICE}: {lost()}"


def without_a_setting(patch: pytest.MonkeyPatch) -> str:
    kept = [name for name in names.settings() if name != "OPSERVE_DEVICES"]
    patch.setattr(names, "settings", lambda: kept)
    return "OPSERVE_DEVICES"


def with_another_label(patch: pytest.MonkeyPatch) -> str:
    calls = replace(FAMILIES["kernels"], labels=("device", "operator", "outcome"))
    patch.setattr(telemetry, "FAMILIES", {**FAMILIES, "kernels": calls})
    return "opserve_kernels_total{profile}"


def without_an_export(patch: pytest.MonkeyPatch) -> str:
    kept = [name for name in opserve_client.__all__ if name != "Session"]
    patch.setattr(opserve_client, "__all__", kept)
    return "opserve_client.Session.run"


def with_another_parameter(patch: pytest.MonkeyPatch) -> str:
    def upload(_self: object, values: object, format: object = None) -> None:  # noqa: A002
        del values, format

    patch.setattr(opserve_client.Session, "upload", upload)
    return "opserve_client.Session.upload(array)"


def without_an_option(patch: pytest.MonkeyPatch) -> str:
    def one_less(command: Any, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        for name, words in commands(command, path):
            yield name, tuple(word for word in words if word != "--report")

    commands = names._commands
    patch.setattr(names, "_commands", one_less)
    return "opserve conform run --report"


def with_another_exit_status(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(names, "ExitStatus", [one for one in ExitStatus if one != ExitStatus.UNUSABLE])
    return "2 UNUSABLE"


def without_a_route(patch: pytest.MonkeyPatch) -> str:
    document = dict(names._document())
    document["paths"] = {k: v for k, v in document["paths"].items() if k != "/v1/devices"}
    patch.setattr(names, "_document", lambda: document)
    return "GET /v1/devices"


@pytest.mark.parametrize(
    "change",
    [
        without_a_setting,
        with_another_label,
        without_an_export,
        with_another_parameter,
        without_an_option,
        with_another_exit_status,
        without_a_route,
    ],
)
def test_a_changed_public_name_is_noticed(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = change(monkeypatch)
    assert problems().startswith(ADVICE)
    assert gone in lost()


def test_a_renamed_setting_under_its_old_name_is_a_start_error() -> None:
    """tests/server/test_settings.py shows the error."""
    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    settings = {old: new for kind, old, new in rows(changelog) if kind == "setting"}
    assert settings.keys() == RENAMED.keys()
    assert all(f"`{RENAMED[old]}`" in new for old, new in settings.items())
    assert set(RENAMED.values()) <= set(names.settings())


def test_every_class_that_a_public_call_takes_or_returns_is_public() -> None:
    """Types in a method's annotations are exported, generated, or of another project."""
    public = {export.name.partition("(")[0] for module in MODULES for export in exports(module)}
    own = {
        name
        for path in (REPOSITORY / "client/opserve_client/_async").glob("*.py")
        for name in annotated(ast.parse(path.read_text()))
    }
    classes = {node.name for node in classes_of_the_client()}
    assert {name for name in own & classes if name not in public} == PROTOCOLS


def classes_of_the_client() -> Iterator[ast.ClassDef]:
    for path in (REPOSITORY / "client/opserve_client").rglob("*.py"):
        tree = ast.parse(path.read_text())
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def annotated(tree: ast.Module) -> Iterator[str]:
    """Names in the annotations of public methods of exported classes."""
    exported = set(opserve_client.__all__)
    for cls in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for method in cls.body if cls.name in exported else ():
            if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            arguments = [*method.args.args, *method.args.kwonlyargs]
            hints = [*(one.annotation for one in arguments), method.returns]
            for hint in hints if not method.name.startswith("_") else ():
                found = ast.walk(hint) if hint is not None else ()
                yield from (node.id for node in found if isinstance(node, ast.Name))


def test_examples_of_the_pages_use_public_names() -> None:
    pages = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")]
    private: list[str] = []
    for path in pages:
        page = str(path.relative_to(REPOSITORY))
        if page in EXPLAINED or "decisions" in page:
            continue
        for module, imported in imports_in(path):
            known = (
                {export.name.partition("(")[0] for export in exports(module)}
                if module in MODULES
                else set[str]()
            )
            private += [f"{page}: {module}.{name}" for name in imported if name not in known]
    assert private == []


def imports_in(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Modules of ours in the examples, and the names that they import."""
    for module, imported in re.findall(
        r"from (opserve_\w[\w.]*) import ([\w, ]+)", path.read_text()
    ):
        yield module, [name.strip().partition(" as ")[0] for name in imported.split(",")]


def test_the_variables_that_the_code_reads_are_public() -> None:
    read = {
        name
        for root in ("client", "kernels", "server")
        for path in (REPOSITORY / root).rglob("*.py")
        for name in re.findall(r'environ(?:\.get\(|\[)"(\w+)"', path.read_text())
    }
    assert read - set(names.VARIABLES) - set(names.settings()) == set()
    assert len(read) >= 3
