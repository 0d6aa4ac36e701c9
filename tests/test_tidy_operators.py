"""Parts of every operator of the registry, which the skeleton of a new one has too."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kernels.samples import REGISTRY_ERROR_SAMPLES, REGISTRY_SAMPLES
from opserve.v1.operator_service_pb2 import GetWorkspaceSizeRequest
from opserve_client import operators as client_operators
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS, operators_of
from opserve_kernels.status import AnyStatus, Status
from opserve_kernels.tensor import DataType

REPOSITORY = Path(__file__).resolve().parent.parent
UNFINISHED = "FILL" + " IN"
SAMPLES_AT_LEAST = 25
HEADINGS = ["Formula", "Parameters", "Constraints", "Errors", "Example", "Sources"]
FILES = (
    "protos/opserve/v1/{}.proto",
    "kernels/opserve_kernels/operators/{}/__init__.py",
    "kernels/opserve_kernels/operators/{}/operator.py",
    "kernels/opserve_kernels/operators/{}/contract.py",
    "kernels/opserve_kernels/operators/{}/schema.py",
    "kernels/opserve_kernels/operators/{}/plan.py",
    "kernels/opserve_kernels/operators/{}/kernel.py",
    "kernels/opserve_kernels/operators/{}/reference_kernel.py",
    "kernels/opserve_kernels/operators/{}/README.md",
    *(
        f"kernels/opserve_kernels/operators/{{}}/cases/{part}.py"
        for part in ("__init__", "calls", "forms", "refusals", "sums")
    ),
    "client/opserve_client/operators/{}.py",
    "tests/kernels/samples/{}.py",
    "tests/kernels/oracles/{}.py",
)

each_operator = pytest.mark.parametrize("name", OPERATORS)


def files_of(name: str) -> list[Path]:
    return [Path(path.format(name)) for path in FILES]


def readme(name: str) -> str:
    return (REPOSITORY / f"kernels/opserve_kernels/operators/{name}/README.md").read_text()


def section(name: str, heading: str) -> str:
    _, _, rest = readme(name).partition(f"\n## {heading}\n")
    return rest.partition("\n## ")[0]


def dtypes_of(name: str) -> set[DataType]:
    """The dtypes that an operator's table of parameters names."""
    words = set(re.findall(r"\b[A-Z][A-Z0-9]+\b", section(name, "Parameters")))
    return {dtype for dtype in DataType if dtype.name in words}


def spelled(status: AnyStatus) -> str:
    """As a family writes its codes: 161002, E60011, DECONV_PARAM_INVALID."""
    return str(int(status)) if isinstance(status, Status) else status.name


def contract(title: str) -> dict[str, Any]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    (found,) = [
        contract
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["name"] == title
    ]
    return dict(found)


def scaffold(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "tools/new_operator.py", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@each_operator
def test_operator_has_all_its_files(name: str) -> None:
    assert [path for path in files_of(name) if not (REPOSITORY / path).is_file()] == []


@each_operator
def test_operator_is_finished(name: str) -> None:
    unfinished = [path for path in files_of(name) if UNFINISHED in (REPOSITORY / path).read_text()]
    assert unfinished == []


@each_operator
def test_operator_has_one_name(name: str) -> None:
    assert OPERATORS[name].name == name


@each_operator
def test_readme_has_the_headings_of_every_operator(name: str) -> None:
    assert re.findall(r"^## (.+)$", readme(name), flags=re.MULTILINE) == HEADINGS


@each_operator
def test_readme_explains_every_argument(name: str) -> None:
    explained = set(re.findall(r"`(\w+)`", section(name, "Parameters")))
    assert set(OPERATORS[name].schema.__dataclass_fields__) - explained == set()


@each_operator
def test_readme_lists_every_code_of_the_error_samples(name: str) -> None:
    listed = set(re.findall(r"\b\w+\b", section(name, "Errors")))
    assert {spelled(error.status) for error in REGISTRY_ERROR_SAMPLES[name]} - listed == set()


@each_operator
def test_samples_are_enough_and_have_unique_names(name: str) -> None:
    names = [sample.name for sample in REGISTRY_SAMPLES[name]]
    assert len(names) >= SAMPLES_AT_LEAST
    assert len(set(names)) == len(names)


@each_operator
def test_samples_use_every_dtype_of_the_table(name: str) -> None:
    used = {
        tensor.dtype
        for sample in REGISTRY_SAMPLES[name]
        for tensor in sample.tensors.values()
        if tensor
    }
    assert dtypes_of(name)
    assert dtypes_of(name) - used == set()


@each_operator
def test_error_samples_have_unique_names(name: str) -> None:
    names = [error.sample.name for error in REGISTRY_ERROR_SAMPLES[name]]
    assert names
    assert len(set(names)) == len(names)


@each_operator
def test_some_profile_supports_the_operator_and_only_known_ones_do(name: str) -> None:
    assert OPERATORS[name].support
    assert OPERATORS[name].support.keys() - PROFILES.keys() == set()
    assert all(support.dtypes for support in OPERATORS[name].support.values())


@each_operator
def test_client_calls_the_operator_as_the_vendor_does_and_raises_errors_of_its_family(
    name: str,
) -> None:
    client, operator = client_operators.OPERATORS[name], OPERATORS[name]
    assert operator.call == client.schema.CALL
    assert {rule.status.domain for rule in operator.rules} == {client.invalid.domain}


def test_every_profile_has_an_operator() -> None:
    assert [profile for profile in PROFILES if not operators_of(profile)] == []


def test_request_takes_every_operator_of_the_registry_and_no_other() -> None:
    oneof = GetWorkspaceSizeRequest.DESCRIPTOR.oneofs_by_name["operator"]
    assert {field.name for field in oneof.fields} == set(OPERATORS)


def test_client_offers_every_operator_of_the_registry_and_no_other() -> None:
    assert set(client_operators.OPERATORS) == set(OPERATORS)


def test_samples_are_listed_for_every_operator_of_the_registry_and_no_other() -> None:
    assert set(REGISTRY_SAMPLES) == set(OPERATORS)
    assert set(REGISTRY_ERROR_SAMPLES) == set(OPERATORS)


def test_every_folder_of_an_operator_is_in_the_registry() -> None:
    folders = (REPOSITORY / "kernels/opserve_kernels/operators").glob("*/schema.py")
    assert {schema.parent.name for schema in folders} == set(OPERATORS)


def test_import_contract_keeps_every_operator_from_the_others() -> None:
    assert contract("operators do not know each other")["modules"] == [
        "opserve_kernels.operators.*"
    ]


def test_import_contract_keeps_numba_out_of_every_schema_and_plan() -> None:
    modules = set(contract("schemas and plans never import numba")["source_modules"])
    parts = ("schema", "plan", "operator")
    assert {f"opserve_kernels.operators.*.{part}" for part in parts} - modules == set()


def test_an_operator_is_named_in_its_room_and_in_six_files() -> None:
    room = REPOSITORY / "kernels/opserve_kernels/operators/deconv_grad_filter"
    found = {
        str(path.relative_to(REPOSITORY))
        for root in ("client", "kernels", "protos", "server", "tools")
        for path in (REPOSITORY / root).rglob("*")
        if path.suffix in {".py", ".proto", ".js"}
        and "_pb2" not in path.name
        and room not in path.parents
        and re.search("deconv_grad_filter|DeconvGradFilter", path.read_text())
    }
    assert found == {
        "kernels/opserve_kernels/operators/__init__.py",
        "protos/opserve/v1/deconv_grad_filter.proto",
        "protos/opserve/v1/operator_service.proto",
        "client/opserve_client/operators/deconv_grad_filter.py",
        "client/opserve_client/operators/__init__.py",
        "client/opserve_client/__init__.py",
    }


@each_operator
def test_a_schema_loads_no_plan(name: str) -> None:
    program = (
        "import sys;"
        f"import opserve_kernels.operators.{name}.schema;"
        "print([one for one in sys.modules if one.endswith(('plan', 'kernel', 'checks'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


EDITED = (
    Path("kernels/opserve_kernels/operators/__init__.py"),
    Path("protos/opserve/v1/operator_service.proto"),
    Path("client/opserve_client/operators/__init__.py"),
    Path("client/opserve_client/__init__.py"),
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder with the files that take a line of each operator."""
    for path in EDITED:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text((REPOSITORY / path).read_text())
    return tmp_path


def contents(repository: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in repository.rglob("*") if path.is_file()}


def test_skeleton_adds_the_lines_of_an_operator_and_changes_no_other(repository: Path) -> None:
    done = scaffold("my_operator", "--root", str(repository))
    assert done.returncode == 0, done.stderr
    added: dict[str, list[str]] = {}
    for path in EDITED:
        before, now = ((root / path).read_text().splitlines() for root in (REPOSITORY, repository))
        assert [line for line in before if line not in now] == []
        added[path.parent.name] = [line.strip() for line in now if line not in before]
    assert added["operators"][-1] == '"my_operator": MyOperator,'
    assert {
        "v1": [
            'import "opserve/v1/my_operator.proto";',
            f"MyOperator my_operator = {len(OPERATORS) + 2};",
        ],
        "opserve_client": [
            "from opserve_client.operators.my_operator import MyOperator, MyOperatorResult",
            '"MyOperator",',
            '"MyOperatorResult",',
        ],
    }.items() <= added.items()
    registry = (repository / EDITED[0]).read_text()
    assert f'    "{[*OPERATORS][-1]}",\n    "my_operator",\n)' in registry


def test_skeleton_has_the_files_of_an_operator_and_no_other(repository: Path) -> None:
    done = scaffold("my_operator", "--root", str(repository))
    written = {path.relative_to(repository) for path in repository.rglob("*") if path.is_file()}
    assert done.returncode == 0, done.stderr
    assert written == {*files_of("my_operator"), *EDITED}


def test_skeleton_is_unfinished_in_every_file(repository: Path) -> None:
    scaffold("my_operator", "--root", str(repository))
    finished = [
        path
        for path in files_of("my_operator")
        if UNFINISHED not in (repository / path).read_text()
    ]
    assert finished == []


def test_skeleton_readme_has_the_headings_of_every_operator(repository: Path) -> None:
    scaffold("my_operator", "--root", str(repository))
    text = (repository / "kernels/opserve_kernels/operators/my_operator/README.md").read_text()
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == HEADINGS


def test_skeleton_passes_the_linter_once_in_place(repository: Path) -> None:
    scaffold("my_operator", "--root", str(repository))
    linter = [sys.executable, "-m", "ruff", "check", "--quiet", "--ignore", "INP001"]
    found = {
        path: subprocess.run(
            [*linter, "--stdin-filename", str(path), "-"],
            input=(repository / path).read_text(),
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for path in files_of("my_operator")
        if path.suffix == ".py"
    }
    assert {path: complaints for path, complaints in found.items() if complaints} == {}


def test_skeleton_replaces_nothing(repository: Path) -> None:
    before = contents(repository)
    mine = repository / "protos/opserve/v1/my_operator.proto"
    mine.write_text("mine")
    done = scaffold("my_operator", "--root", str(repository))
    assert done.returncode == 1
    assert contents(repository) == before | {mine: "mine"}


@pytest.mark.parametrize("name", ["", "MyOperator", "my-operator", "../x", "2d", "a__b"])
def test_skeleton_refuses_names_that_are_not_snake_case(name: str, repository: Path) -> None:
    before = contents(repository)
    assert scaffold("--root", str(repository), "--", name).returncode == 2
    assert contents(repository) == before
