"""What every operator of the registry has, and that the skeleton of a new one has the same."""

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
    "kernels/opserve_kernels/operators/{}/exact_kernel.py",
    "kernels/opserve_kernels/operators/{}/README.md",
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
def test_operator_goes_by_one_name(name: str) -> None:
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
def test_samples_are_enough_and_have_names_of_their_own(name: str) -> None:
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
def test_error_samples_have_names_of_their_own(name: str) -> None:
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
    assert client.vendor_name == operator.call
    assert {rule.status.domain for rule in operator.rules} == {client.domain}


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


@each_operator
def test_a_schema_loads_no_plan(name: str) -> None:
    program = (
        "import sys;"
        f"import opserve_kernels.operators.{name}.schema;"
        "print([one for one in sys.modules if one.endswith(('plan', 'kernel', 'checks'))])"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout == "[]\n"


def test_skeleton_has_the_files_of_an_operator_and_no_other(tmp_path: Path) -> None:
    done = scaffold("my_operator", "--root", str(tmp_path))
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert done.returncode == 0, done.stderr
    assert written == set(files_of("my_operator"))


def test_skeleton_is_unfinished_in_every_file(tmp_path: Path) -> None:
    scaffold("my_operator", "--root", str(tmp_path))
    finished = [
        path for path in files_of("my_operator") if UNFINISHED not in (tmp_path / path).read_text()
    ]
    assert finished == []


def test_skeleton_readme_has_the_headings_of_every_operator(tmp_path: Path) -> None:
    scaffold("my_operator", "--root", str(tmp_path))
    text = (tmp_path / "kernels/opserve_kernels/operators/my_operator/README.md").read_text()
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == HEADINGS


def test_skeleton_passes_the_linter_once_in_place(tmp_path: Path) -> None:
    scaffold("my_operator", "--root", str(tmp_path))
    linter = [sys.executable, "-m", "ruff", "check", "--quiet", "--ignore", "INP001"]
    found = {
        path: subprocess.run(
            [*linter, "--stdin-filename", str(path), "-"],
            input=(tmp_path / path).read_text(),
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for path in files_of("my_operator")
        if path.suffix == ".py"
    }
    assert {path: told for path, told in found.items() if told} == {}


def test_skeleton_replaces_nothing(tmp_path: Path) -> None:
    (tmp_path / "protos/opserve/v1").mkdir(parents=True)
    mine = tmp_path / "protos/opserve/v1/my_operator.proto"
    mine.write_text("mine")
    done = scaffold("my_operator", "--root", str(tmp_path))
    assert done.returncode == 1
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]


@pytest.mark.parametrize("name", ["", "MyOperator", "my-operator", "../x", "2d", "a__b"])
def test_skeleton_refuses_names_that_are_not_snake_case(name: str, tmp_path: Path) -> None:
    assert scaffold("--root", str(tmp_path), "--", name).returncode == 2
    assert list(tmp_path.iterdir()) == []
