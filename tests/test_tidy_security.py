"""Every promise of SECURITY.md has a test, and the service's code avoids forbidden calls."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from test_tidy_guarantees import NAME, existing_tests

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = (REPOSITORY / "SECURITY.md").read_text()
RULES = re.findall(
    r"^- (?:.|\n(?!- |\n))+", PAGE.partition("## Rules")[2].partition("## Limits")[0], re.MULTILINE
)
SERVICE = ("server/opserve_server", "kernels/opserve_kernels", "protos/opserve")
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "marshal", "shelve", "yaml", "jsonpickle"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "system", "popen"}
OPENING = {"open", "fdopen", "read_text", "read_bytes", "write_text", "write_bytes", "unlink"}
OPENERS = {
    "kernels/opserve_kernels": "its own compiled loops, and cases that a user names to a client",
    "server/opserve_server/tls.py": "files that the operator names",
    "server/opserve_server/dashboard/files.py": "its own pages, once",
    "server/opserve_server/store": "a file that the operator names",
    "server/opserve_server/pool": "memory and the system's own files",
    "server/opserve_server/npz.py": "members of an archive in memory",
    "server/opserve_server/conformance/payloads.py": "memory that its processes share",
}
"""Modules that may open files, with the reason."""
UNPICKLERS = {
    "server/opserve_server/conformance/payloads.py": "messages between its own processes",
}
"""Modules that may unpickle, with the reason."""
STARTERS = {
    "server/opserve_server/first_start.py": "the program that compiles its kernels",
    "server/opserve_server/placement/service_process.py": "whole services, of `opserve farm`",
    "server/opserve_server/stop_guard.py": "itself, as the process that ends a stuck front",
}
"""Modules that may start processes, with the reason."""
SESSIONS = re.compile(r"self\._\w+\.open")
"""Opens a session, by a part of the core."""


@cache
def nodes() -> list[tuple[str, ast.Import | ast.ImportFrom | ast.Call]]:
    """Imports and calls of the service's code, each with the path of its module."""
    return [
        (f"{path.relative_to(REPOSITORY)}", node)
        for root in SERVICE
        for path in (REPOSITORY / root).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)
    ]


def name_of(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def test_every_rule_names_its_test() -> None:
    assert len(RULES) > 20
    assert [rule for rule in RULES if not NAME.search(rule)] == []


def test_every_test_that_a_rule_names_exists() -> None:
    assert set(NAME.findall(PAGE)) - existing_tests() == set()


def test_nothing_is_unpickled_evaluated_or_run() -> None:
    found = [
        f"{path}: {ast.unparse(node)}"
        for path, node in nodes()
        if (imports(node) & FORBIDDEN_MODULES and path not in UNPICKLERS)
        or calls_what_is_forbidden(node)
    ]
    assert found == []


def imports(node: ast.AST) -> set[str]:
    match node:
        case ast.Import(names=names):
            return {alias.name.split(".")[0] for alias in names}
        case ast.ImportFrom(module=str(module)):
            return {module.split(".")[0]}
        case _:
            return set()


def calls_what_is_forbidden(node: ast.AST) -> bool:
    """A call of eval and the like by its bare name, or of os.system; re.compile is another."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in FORBIDDEN_CALLS
        case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr=name)):
            return name in FORBIDDEN_CALLS
        case ast.Call(keywords=keywords):
            return any(one.arg == "shell" for one in keywords)
        case _:
            return False


def test_arrays_are_loaded_without_pickles() -> None:
    for path, node in nodes():
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"np.load", "npy.load"}:
            allowed = [one for one in node.keywords if one.arg == "allow_pickle"]
            assert [ast.unparse(one.value) for one in allowed] == ["False"], path


def test_the_service_opens_files_in_these_modules_alone() -> None:
    found = {
        path
        for path, node in nodes()
        if isinstance(node, ast.Call)
        and name_of(node) in OPENING
        and not SESSIONS.fullmatch(ast.unparse(node.func))
    }
    assert {path for path in found if not path.startswith(tuple(OPENERS))} == set()


@pytest.mark.parametrize("opener", OPENERS)
def test_a_module_that_may_open_files_exists(opener: str) -> None:
    assert (REPOSITORY / opener).exists()


def test_the_service_starts_no_program_but_its_own() -> None:
    starting = {path for path, node in nodes() if starts(node)}
    assert starting == STARTERS.keys()


def starts(node: ast.AST) -> bool:
    return "subprocess" in imports(node)
