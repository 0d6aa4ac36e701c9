"""PyTorch's own test_convolution.py, with every convolution on a service."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pytorch_tests
from client.pytorch_plugin import COUNTS
from opserve_client.access import ADDRESS_VARIABLE
from opserve_client.private_service import Addresses

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.pytorch_tests,
    pytest.mark.timeout(1800),
]
LEFT_OUT = ("large", "issue_120547", "backcompat")
"""Tests that need tens of gigabytes, or a download."""
FORWARD, BACKWARD = 67, 37
"""Tests that call each on the CPU, as measured with PyTorch 2.13."""


def test_every_test_passes_and_sends_its_calls(service: Addresses, tmp_path: Path) -> None:
    counts = tmp_path / "counts.jsonl"
    command = [
        *(sys.executable, "-m", "pytest", str(pytorch_tests.FILE), "-p", "client.pytorch_plugin"),
        *(
            "-c",
            os.devnull,
            "--rootdir",
            str(tmp_path),
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
        ),
        *("-k", " and ".join(f"not {name}" for name in LEFT_OUT), "-q", "--tb=short"),
    ]
    tests = str(Path(__file__).parents[1])
    environment = {"PYTHONPATH": tests, ADDRESS_VARIABLE: service.grpc, COUNTS: str(counts)}
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    found: list[dict[str, Any]] = [json.loads(line) for line in counts.read_text().splitlines()]
    # A call that the service rejects raises an error, unless PyTorch rejects it, too.
    calling = [one for one in found if not {*one["not_offloaded"]} & {"empty", "rejected"}]
    assert not [one["test"] for one in calling if one["not_offloaded"] and not one["offloaded"]]
    assert sum("convolution" in one["offloaded"] for one in found) >= FORWARD
    assert sum("convolution_backward" in one["offloaded"] for one in found) >= BACKWARD
