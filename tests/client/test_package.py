"""The package as a whole: what it exports, that the blocking half is fresh, what it may import."""

import ast
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import opserve_client
from opserve.v1 import operator_service_pb2
from opserve_client import transports
from opserve_client.operators import OPERATORS, call_of, tensor_fields
from opserve_client.wire.admin_methods import ADMIN_METHODS
from opserve_client.wire.conformance_methods import CONFORMANCE_METHODS
from opserve_client.wire.methods import METHODS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "client" / "opserve_client"
OF_THE_KERNELS = (
    "opserve_kernels.array_like",
    "opserve_kernels.errors",
    "opserve_kernels.formats",
    "opserve_kernels.status",
    "opserve_kernels.tensor",
    "opserve_kernels.user_input",
    *(f"opserve_kernels.operators.{name}.schema" for name in OPERATORS),
)
"""Modules of the kernels root that the client may import: NumPy alone is behind them."""
_BEHIND_SCHEMAS = ("convolution", "errors", "forward", "forward.sizes", "number_formats")
OF_CONFORMANCE = (
    "opserve_kernels.cases.",
    *(f"opserve_kernels.operators.{name}.cases." for name in OPERATORS),
    "opserve_kernels.conformance.",
    "opserve_kernels.profiles",
    "opserve_kernels.verdict.",
    "opserve_kernels.tensor",
    "opserve_kernels.user_input",
)
"""Further imports of its conformance commands, at the first call."""


def test_the_blocking_client_is_fresh() -> None:
    command = [sys.executable, str(ROOT / "client" / "generate_sync.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_import_waits_for_no_library_of_an_api_nor_of_the_command_line() -> None:
    names = "asyncio, grpc, httptools, rich, ssl, typer"
    program = "import sys, opserve_client; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not set(names.split(", ")) & set(done.stdout.split())


def test_a_missing_name_is_an_attribute_error() -> None:
    name = "Cliant"
    with pytest.raises(AttributeError, match="'opserve_client' has no attribute 'Cliant'"):
        getattr(opserve_client, name)


def test_all_names_existing_objects() -> None:
    loaded_later = {name: getattr(opserve_client, name) for name in opserve_client._ASYNC}
    public = {
        name
        for name, value in (vars(opserve_client) | loaded_later).items()
        if not name.startswith("_")
        and getattr(value, "__module__", "").startswith(("opserve_client.", *OF_THE_KERNELS))
    }
    assert opserve_client.__all__ == sorted(public)
    assert transports.__all__ == sorted(transports.__all__)


def test_both_clients_have_the_same_methods() -> None:
    for name in opserve_client.__all__:
        if name.startswith("Async"):
            there = getattr(opserve_client, name), getattr(opserve_client, name[5:])
            asynchronous, blocking = (
                {member for member in dir(one) if not member.startswith("_")} for one in there
            )
            assert asynchronous == blocking, name


def test_operators_have_the_fields_of_their_messages() -> None:
    request = operator_service_pb2.GetWorkspaceSizeRequest.DESCRIPTOR
    assert [field.name for field in request.oneofs_by_name["operator"].fields] == list(OPERATORS)
    for name, operator in OPERATORS.items():
        message = request.fields_by_name[name].message_type
        assert message is not None
        assert [field.name for field in fields(operator)] == [f.name for f in message.fields]
        assert operator.__name__ == message.name


def test_tensor_fields_are_counted_in_the_vendors_order() -> None:
    assert tensor_fields(call_of(opserve_client.ConvolutionBackward, {})) == (
        "grad_output",
        "input",
        "weight",
        "grad_input",
        "grad_weight",
        "grad_bias",
    )
    assert tensor_fields(call_of(opserve_client.Im2colBackward, {})) == ("grad_output", "out")
    deconvolution = call_of(opserve_client.DeconvGradFilter, {})
    assert tensor_fields(deconvolution) == ("dy_data", "x_data", "dw_data")


def test_every_rpc_of_the_protos_has_a_row() -> None:
    rpcs: set[str] = set()
    for path in (ROOT / "protos" / "opserve" / "v1").glob("*_service_pb2.py"):
        module = sys.modules[f"opserve.v1.{path.stem}"]
        for service in module.DESCRIPTOR.services_by_name.values():
            for rpc in service.methods:
                rpcs.add(f"{service.name}/{rpc.name}")
    assert {method.rpc for method in (*METHODS, *ADMIN_METHODS, *CONFORMANCE_METHODS)} == rpcs


def test_the_client_imports_no_server_and_of_the_kernels_what_both_sides_need() -> None:
    for path in PACKAGE.rglob("*.py"):
        is_conformance = PACKAGE / "conform" in path.parents
        allowed = (*OF_THE_KERNELS, *(OF_CONFORMANCE if is_conformance else ()))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                assert not name.startswith("opserve_server"), path
                assert not name.startswith("opserve_kernels") or name.startswith(allowed), path


def test_the_base_install_without_numba_and_the_service_is_enough() -> None:
    missing = ("numba", "fastapi", "starlette", "uvicorn", "pydantic_settings", "grpc_health")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({missing})); import opserve_client; "
        "print(*sorted(name for name in sys.modules if name.startswith('opserve_kernels.')))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    behind = {f"opserve_kernels.{name}" for name in _BEHIND_SCHEMAS}
    packages = {name.rpartition(".")[0] for name in OF_THE_KERNELS if name.endswith(".schema")}
    loaded = {*OF_THE_KERNELS, *behind, *packages, "opserve_kernels.operators"}
    assert set(done.stdout.split()) == loaded


def test_conformance_cases_are_made_without_numba_and_the_service() -> None:
    missing = ("numba", "fastapi", "starlette", "uvicorn", "pydantic_settings", "grpc_health")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({missing})); "
        "from opserve_client.conform import command_line, selection; "
        "print(len(selection.suite_named('smoke', 0).cases))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200
