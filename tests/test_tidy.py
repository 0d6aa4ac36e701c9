"""The repository's own rules, as far as no other tool checks them."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Container
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import previous_release
from opserve_server.settings import Settings

REPOSITORY = Path(__file__).resolve().parent.parent
ROOTS = ("protos", "kernels", "server", "client")
TYPED_PACKAGES = (
    "protos/opserve",
    "protos/opserve/v1",
    "kernels/opserve_kernels",
    "client/opserve_pytest",
    "server/opserve_server",
    "client/opserve_client",
)
LOOPS = Path("kernels/opserve_kernels/loops.py")
COMPILERS = {"njit", "jit", "vectorize", "guvectorize", "stencil", "cfunc"}
MODULE_LINES = 600
FUNCTION_LINES = 40
DECISION_LINES = 30
VENDORED = "swagger-ui-bundle.js"
"""A file of others, unchanged."""
PRODUCT_AND_PAGES = {
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("docs", "server", "client", "kernels", "protos", "tools", "benchmarks"),
}
NOT_OUR_PROSE = re.compile(rf"/_sync/|_pb2|\.(binpb|png)$|/docs/decisions/|{VENDORED}")
"""Generated, of others, or a record of its time."""
STILTED = re.compile(
    r"(?<![a-z])(?:told|tells|whoever)(?![a-z])"  # as a part of a name too
    r"|\"{3}(?:what an? |who(?:ever)? )",  # as the beginning of a docstring
    re.IGNORECASE,
)


@cache
def files(pattern: str = "*") -> list[Path]:
    """Files of the repository, relative to it, but for what .gitignore names."""
    found: list[Path] = []
    for folder, folders, names in os.walk(REPOSITORY):
        here = Path(folder).relative_to(REPOSITORY)
        folders[:] = [name for name in folders if not ignored(here / name)]
        found += [here / name for name in names if not ignored(here / name)]
    return sorted(path for path in found if path.match(pattern))


def ignored(path: Path) -> bool:
    return any(path.match(pattern) for pattern in ignored_patterns())


@cache
def ignored_patterns() -> list[str]:
    lines = (REPOSITORY / ".gitignore").read_text().splitlines()
    return [".git", *(line.rstrip("/") for line in lines if line)]


def written_by_hand() -> list[Path]:
    modules = [path for path in files("*.py") if "_sync" not in path.parts]
    assert modules
    return [path for path in modules if "_pb2" not in path.name]


def text(path: Path) -> str:
    return (REPOSITORY / path).read_text(errors="replace")


def parse(path: Path) -> ast.Module:
    return ast.parse(text(path))


def lines_that_match(pattern: str) -> list[str]:
    here = Path(__file__).relative_to(REPOSITORY)
    expression = re.compile(pattern)
    return [
        f"{path}:{number}: {line.strip()}"
        for path in files()
        if path != here and path.suffix != ".png" and path.name != VENDORED
        for number, line in enumerate(text(path).splitlines(), 1)
        if expression.search(line)
    ]


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_no_module_is_longer_than_600_lines() -> None:
    lengths = {path: len(text(path).splitlines()) for path in written_by_hand()}
    assert {path: length for path, length in lengths.items() if length > MODULE_LINES} == {}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Properties of a module that tests here read; each module is parsed once."""

    documented: bool
    long_functions: list[str]
    compilers: set[str]


@cache
def facts() -> dict[Path, Facts]:
    return {path: facts_of(path, parse(path)) for path in written_by_hand()}


def facts_of(path: Path, module: ast.Module) -> Facts:
    nodes = list(ast.walk(module))
    return Facts(
        documented=ast.get_docstring(module) is not None,
        long_functions=[
            f"{path}:{node.lineno} {node.name}: {length(node)}"
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and length(node) > FUNCTION_LINES
        ],
        compilers={name for node in nodes for name in names_of(node) & COMPILERS},
    )


def test_no_function_is_longer_than_40_lines() -> None:
    assert [function for found in facts().values() for function in found.long_functions] == []


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def test_every_module_has_a_docstring() -> None:
    silent = [path for path, found in facts().items() if text(path) and not found.documented]
    assert silent == []


def test_product_and_pages_are_in_plain_english() -> None:
    read = [path for path in files() if path.parts[0] in PRODUCT_AND_PAGES]
    read = [path for path in read if not NOT_OUR_PROSE.search(f"/{path}")]
    assert len(read) > 400
    places = [
        f"{path}:{number}: {line.strip()}"
        for path in read
        for number, line in enumerate(text(path).splitlines(), 1)
        if STILTED.search(line)
    ]
    assert places == []


def test_every_todo_has_an_issue_number() -> None:
    assert lines_that_match(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))") == []


def test_no_file_names_a_path_of_a_machine() -> None:
    own = re.escape(str(REPOSITORY))
    assert lines_that_match(rf"{own}\b|(?<![\w.~-])/(home|root|Users|opt|mnt)/") == []


def test_no_file_names_a_package_registry() -> None:
    assert lines_that_match(r"index-url *[=:]|://[^ ]*/simple/?(\s|$)|--find-links [^-]") == []


def test_the_repository_contains_no_secret() -> None:
    assert lines_that_match(r"-----BEGIN [A-Z ]*PRIVATE KEY-----") == []


@pytest.mark.parametrize("root", ROOTS)
def test_source_roots_are_not_packages(root: str) -> None:
    assert (REPOSITORY / root).is_dir()
    assert not (REPOSITORY / root / "__init__.py").exists()


@pytest.mark.parametrize("package", TYPED_PACKAGES)
def test_package_is_marked_as_typed(package: str) -> None:
    assert (REPOSITORY / package / "py.typed").is_file()


def test_only_the_house_decorator_compiles() -> None:
    compiling = [
        path
        for path, found in facts().items()
        if path != LOOPS and "tests" not in path.parts and found.compilers
    ]
    assert compiling == []


def test_loops_read_records_by_the_names_of_their_fields() -> None:
    modules = {path: parse(path) for path in kernels()}
    records = {name for module in modules.values() for name in records_in(module)}
    # These two walk the stages of a plan, of which each begins with a header and its record.
    walkers = {"opserve_kernels/stages.py", "opserve_kernels/gradient_loops.py"}
    indexed = [
        f"{path}:{node.lineno} {ast.unparse(node)}"
        for path, module in modules.items()
        for function in ast.walk(module)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and (kind := kinds_of(function).get(node.value.id))
        and (
            kind in records or (kind == "Integers" and not path.as_posix().endswith(tuple(walkers)))
        )
    ]
    assert indexed == []


def kernels() -> list[Path]:
    return [path for path in written_by_hand() if "opserve_kernels" in path.parts]


def records_in(module: ast.Module) -> list[str]:
    return [
        node.name
        for node in module.body
        if isinstance(node, ast.ClassDef)
        and "NamedTuple" in {base.id for base in node.bases if isinstance(base, ast.Name)}
    ]


def kinds_of(function: ast.FunctionDef) -> dict[str, str]:
    """Annotations of the arguments and of local names, where they are plain names."""
    declared = [
        *((argument.arg, argument.annotation) for argument in function.args.args),
        *(
            (node.target.id, node.annotation)
            for node in ast.walk(function)
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        ),
    ]
    return {name: kind.id for name, kind in declared if isinstance(kind, ast.Name)}


def names_of(node: ast.AST) -> set[str]:
    match node:
        case ast.ImportFrom(module="numba"):
            return {alias.name for alias in node.names}
        case ast.Attribute(value=ast.Name(id="numba")):
            return {node.attr}
        case _:
            return set()


@pytest.mark.parametrize("option", ["fastmath", "parallel", "nogil", "error_model"])
def test_house_decorator_is_explicit_about(option: str) -> None:
    (options,) = [
        node.value
        for node in ast.walk(parse(LOOPS))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_OPTIONS"
    ]
    assert option in ast.literal_eval(options)


def test_every_setting_is_described() -> None:
    fields = Settings.model_fields.items()
    assert [name for name, field in fields if not (field.description or "").endswith(".")] == []


def test_every_setting_has_a_default() -> None:
    assert [name for name, field in Settings.model_fields.items() if field.is_required()] == []


def test_client_imports_neither_server_nor_compiler() -> None:
    forbidden = ("numba", "fastapi", "starlette", "opserve_server")
    loaded = f"sorted(name for name in sys.modules if name.startswith({forbidden}))"
    found = run("-c", f"import sys, opserve_client; print({loaded})")
    assert found.strip() == "[]"


def test_the_version_is_stated_in_one_place_and_has_a_release_before_it() -> None:
    version = tomllib.loads(text(Path("pyproject.toml")))["project"]["version"]
    elsewhere = [
        path for path in files() if path.suffix in {".md", ".py", ".yml"} and version in text(path)
    ]
    assert set(elsewhere) <= {Path("CHANGELOG.md")}
    heading = r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$"
    released = re.findall(heading, text(Path("CHANGELOG.md")), re.MULTILINE)
    assert released == sorted(released, key=numbers, reverse=True)
    older = [one for one in released if numbers(one) < numbers(version)]
    assert older[0] == previous_release.VERSION, "CONTRIBUTING.md describes a release"


def numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def test_constraints_pin_versions_and_nothing_else() -> None:
    lines = text(Path("constraints.txt")).splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[\w.!+]+", line)] == []


def test_every_dependency_is_pinned() -> None:
    pinned = {canonical(line) for line in text(Path("constraints.txt")).splitlines()}
    assert declared(but={"protos", "peers", "triton"}) - pinned == set(), (
        "those groups pin their own"
    )


def test_contributing_has_a_reason_for_each_dependency_and_no_other() -> None:
    _, _, section = text(Path("CONTRIBUTING.md")).partition("\n## Dependencies\n")
    section, _, _ = section.partition("\n## ")
    rows = re.findall(r"^\| `([^`]+)`", section, flags=re.MULTILINE)
    assert sorted(canonical(row) for row in rows) == sorted(declared())


def declared(*, but: Container[str] = ()) -> set[str]:
    project = tomllib.loads(text(Path("pyproject.toml")))
    extras = project["project"]["optional-dependencies"].values()
    groups = (list_ for name, list_ in project["dependency-groups"].items() if name not in but)
    lists = [project["project"]["dependencies"], *extras, *groups]
    return {canonical(requirement) for names in lists for requirement in names}


def canonical(requirement: str) -> str:
    (name,) = re.findall(r"^[A-Za-z0-9._-]*[A-Za-z0-9]", requirement)
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("decision", files("docs/decisions/*.md"), ids=str)
def test_decision_is_short_and_whole(decision: Path) -> None:
    lines = text(decision).splitlines()
    assert len(lines) <= DECISION_LINES
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+", decision.stem)
    assert [line for line in lines if line.startswith("## ")] == [
        "## Context",
        "## Decision",
        "## Consequence",
    ]


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = sorted(int(path.name[:4]) for path in files("docs/decisions/*.md"))
    assert numbers == list(range(1, len(numbers) + 1))
