"""perf_analyzer, NVIDIA's load generator, measures a model: each way of calling, both wires."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from opserve_client.private_service import Addresses
from perf_analyzer import PROGRAM

pytestmark = [pytest.mark.system, pytest.mark.perf_analyzer]
REQUESTS = 50
CONCURRENCY = 2
PAIR = {"shape": [2]}
CALL = {
    "grad_output": {"content": [1.0] * 16, "shape": [1, 4, 4]},
    "input_size": {"content": [3, 3]} | PAIR,
    "kernel_size": {"content": [2, 2]} | PAIR,
    "dilation": {"content": [1, 1]} | PAIR,
    "padding": {"content": [0, 0]} | PAIR,
    "stride": {"content": [1, 1]} | PAIR,
}


@pytest.mark.parametrize(
    ("wire", "ways"),
    [
        ("grpc", []),
        ("grpc", ["--async"]),
        ("grpc", ["--async", "--streaming"]),
        ("http", []),
        ("http", ["--async"]),
    ],
)
def test_each_way_of_calling_is_measured(
    service: Addresses, tmp_path: Path, wire: str, ways: list[str]
) -> None:
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"data": [CALL]}))
    address = service.grpc if wire == "grpc" else service.rest.removeprefix("http://")
    command = [
        *(f"{PROGRAM}", "-m", "aclnnIm2colBackward", "-i", wire, "-u", address, *ways),
        *("--input-data", f"{data}", "--request-count", f"{REQUESTS}"),
        *("--concurrency-range", f"{CONCURRENCY}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stdout.write(f"{wire} {' '.join(ways)}\n{done.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr
    (count,) = re.findall(r"^    Request count: (\d+)$", done.stdout, re.MULTILINE)
    (counted,) = re.findall(r"Successful request count: (\d+)", done.stdout)
    assert int(count) >= REQUESTS
    # Calls that ended before its first reading of the service's statistics are not counted.
    assert int(counted) > REQUESTS - CONCURRENCY, "the statistics of the service"
