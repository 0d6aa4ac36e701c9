"""Triton's stock client, unchanged: sync, async, streaming and aio give session.run's bytes."""

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
from test_examples import ROOT, blocks, on
from triton_python import PYTHON

pytestmark = [
    pytest.mark.system,
    pytest.mark.triton,
    pytest.mark.filterwarnings("ignore::opserve_client.DocumentedRuleWarning"),
]
PROGRAM = Path(__file__).with_name("triton_client.py")
WORKING = {
    *("is_server_live", "is_server_ready", "is_model_ready", "get_server_metadata"),
    *("get_model_metadata", "get_model_config", "get_model_repository_index"),
    "get_inference_statistics",
}


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


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_each_way_of_calling_gives_the_bytes_of_session_run(
    service: Addresses, tmp_path: Path, dtype: str
) -> None:
    expected = written(service, tmp_path, dtype)

    done = subprocess.run(
        [PYTHON, PROGRAM, service.grpc, tmp_path], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    answers = json.loads((tmp_path / "answers.json").read_text())
    found = np.load(tmp_path / "outputs.npz")
    assert answers["stream_errors"] == []
    ways = ("sync", "later", "stream", "aio")
    assert set(found.files) == {f"{way}.{name}" for way in ways for name in expected}
    for way in ways:
        for name, array in expected.items():
            given = found[f"{way}.{name}"]
            assert (given.dtype, given.shape) == (array.dtype, array.shape), name
            assert given.tobytes() == array.tobytes(), (way, name)
    check_methods(answers["methods"])


def check_methods(outcomes: dict[str, str]) -> None:
    assert {name for name, outcome in outcomes.items() if outcome == "works"} == WORKING
    assert len(outcomes) > len(WORKING) + 8
    for name, outcome in outcomes.items():
        assert name in WORKING or "UNIMPLEMENTED" in outcome, outcome
        assert name in WORKING or " is not supported: " in outcome, outcome


def test_the_example_of_the_page_runs(service: Addresses) -> None:
    page = "docs/how-to/triton.md"
    (example,) = blocks(page, "python")
    command = [str(PYTHON), "-c", on(service, example)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"It prints `{done.stdout.strip()}`." in (ROOT / page).read_text()
