"""Triton's stock clients, unchanged: every way of calling gives session.run's bytes, both wires."""

import json
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from contract.open_inference import DATATYPES, model_call, ten_calls
from opserve_client import Client
from opserve_client.private_service import Addresses
from test_examples import ROOT, blocks, needs_curl, on, run_shell
from triton_python import PYTHON

pytestmark = [
    pytest.mark.system,
    pytest.mark.triton,
    pytest.mark.filterwarnings("ignore::opserve_client.DocumentedRuleWarning"),
]
PROGRAM = Path(__file__).with_name("triton_client.py")
PAGE = "docs/how-to/triton.md"
WORKING = {
    *("is_server_live", "is_server_ready", "is_model_ready", "get_server_metadata"),
    *("get_model_metadata", "get_model_config", "get_model_repository_index"),
    "get_inference_statistics",
}
WAYS = {
    "grpc": ("sync", "later", "stream", "aio", "aio stream"),
    "http": ("sync", "later", "numbers", "by hand", "aio"),
}
REFUSED = {"grpc": "[StatusCode.UNIMPLEMENTED]", "http": "[501]"}


def address_of(service: Addresses, wire: str) -> str:
    return service.grpc if wire == "grpc" else service.rest.removeprefix("http://")


def bits(array: Any) -> Any:
    return array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array


def written(service: Addresses, folder: Path, dtype: str) -> dict[str, Any]:
    """Writes ten calls for the program; returns the outputs of session.run."""
    profile = "reference" if dtype == "float64" else "ascend910b"
    calls: list[dict[str, Any]] = []
    arrays, expected = dict[str, Any](), dict[str, Any]()
    with Client(service.grpc) as client, client.open_session(profile) as session:
        for number, (form, call) in enumerate(ten_calls(dtype)):
            made = model_call(call, form, profile=profile)
            right = session.run(call)._asdict()
            outputs = [name for name, array in right.items() if array is not None]
            inputs = {name: DATATYPES[array.dtype.name] for name, array in made.inputs.items()}
            # The requested outputs are the mask.
            parameters = {k: v for k, v in made.parameters.items() if k != "output_mask"}
            calls.append(
                {"model": made.model, "parameters": parameters, "inputs": inputs}
                | {"outputs": outputs}
            )
            arrays |= {f"{number}.{name}": bits(array) for name, array in made.inputs.items()}
            expected |= {f"{number}.{name}": bits(right[name]) for name in outputs}
    (folder / "calls.json").write_text(json.dumps(calls))
    np.savez(folder / "arrays.npz", **arrays)
    return expected


@pytest.mark.parametrize("wire", ["grpc", "http"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_each_way_of_calling_gives_the_bytes_of_session_run(
    service: Addresses, tmp_path: Path, dtype: str, wire: str
) -> None:
    expected = written(service, tmp_path, dtype)
    command = [f"{PYTHON}", f"{PROGRAM}", wire, address_of(service, wire), f"{tmp_path}"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "outputs.npz") as outputs:
        found = dict(outputs)
    assert set(found) == {f"{way}.{name}" for way in WAYS[wire] for name in expected}
    for way in WAYS[wire]:
        for name, array in expected.items():
            given = found[f"{way}.{name}"]
            assert (given.dtype, given.shape) == (array.dtype, array.shape), name
            assert given.tobytes() == array.tobytes(), (way, name)
    for outcomes in json.loads((tmp_path / "methods.json").read_text()).values():
        assert {name for name, outcome in outcomes.items() if outcome == "works"} == WORKING
        assert len(outcomes) > len(WORKING) + 8
        for name in outcomes.keys() - WORKING:
            assert outcomes[name].startswith(REFUSED[wire]), outcomes[name]
            assert " is not supported: " in outcomes[name]


@pytest.mark.parametrize("wire", ["grpc", "http"])
def test_the_example_of_the_page_runs(service: Addresses, wire: str) -> None:
    (example,) = blocks(PAGE, "python")
    if wire == "http":
        example = example.replace("tritonclient.grpc", "tritonclient.http")
        example = example.replace("127.0.0.1:50051", "127.0.0.1:8080")
    command = [str(PYTHON), "-c", on(service, example)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"It prints `{done.stdout.strip()}`" in (ROOT / PAGE).read_text()


@needs_curl
def test_the_commands_of_the_page_run(service: Addresses, tmp_path: Path) -> None:
    _, call = blocks(PAGE, "sh")  # the first installs the client
    run_shell(on(service, call.rstrip() + " > answer.json"), tmp_path)
    (output,) = json.loads((tmp_path / "answer.json").read_text())["outputs"]
    assert output["data"] == [1, 2, 1, 2, 4, 2, 1, 2, 1]
