"""The vendor's unmodified samples and unit tests, where they are (vendor_programs.py)."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abi.programs import compiled, run
from opserve_client import (
    Client,
    ConvDepthwise2d,
    Convolution,
    ConvolutionBackward,
    ConvTbc,
    Im2col,
    Im2colBackward,
)
from opserve_client.private_service import Addresses
from vendor_programs import FOLDER

pytestmark = [pytest.mark.vendor_programs, pytest.mark.slow]
HARNESS = Path(__file__).parent / "harness"
OTHER_PRODUCT = "ascend950"
"""Part of the names of tests for a product that opserve does not offer."""


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def steps(rank: int, stride: int = 1, padding: int = 0) -> dict[str, Any]:
    return {
        "stride": [stride] * rank,
        "padding": [padding] * rank,
        "dilation": [1] * rank,
        "output_padding": [0] * rank,
        "groups": 1,
    }


def backward(
    grad_output: tuple[int, ...],
    input_: tuple[int, ...],
    weight: tuple[int, ...],
    cube_math_type: int,
    **numbers: int,
) -> ConvolutionBackward:
    mask = numbers.pop("mask", 0b111)
    return ConvolutionBackward(
        grad_output=ones(*grad_output),
        input=ones(*input_),
        weight=ones(*weight),
        bias_sizes=[weight[0]],
        transposed=False,
        output_mask=[bool(mask >> bit & 1) for bit in range(3)],
        cube_math_type=cube_math_type,
        **steps(len(weight) - 2, **numbers),
    )


def forward(
    input_: tuple[int, ...], weight: tuple[int, ...], cube_math_type: int, *, transposed: bool
) -> Convolution:
    return Convolution(
        input=ones(*input_),
        weight=ones(*weight),
        bias=None,
        transposed=transposed,
        cube_math_type=cube_math_type,
        **steps(len(weight) - 2),
    )


CUBES = (2, 2, 7, 7, 7), (2, 2, 7, 7, 7), (2, 2, 1, 1, 1)
CALLS: dict[str, Any] = {
    "conv_backward_1d": backward((4, 2, 3), (4, 2, 9), (2, 2, 3), 0, stride=3),
    "conv_backward_2d": backward((4, 320, 80, 80), (4, 30, 80, 80), (320, 30, 3, 3), 1, padding=1),
    "conv_backward_3d": backward(*CUBES, 1),
    "conv3d_backprop_filter_v2": backward(*CUBES, 1, mask=0b010),
    "conv3d_backprop_input_v2": backward(*CUBES, 1, mask=0b001),
    "conv2d_v2": forward((2, 2, 2, 2), (1, 2, 1, 1), 1, transposed=False),
    "conv3d_v2": forward((2, 2, 2, 2, 2), (1, 2, 1, 1, 1), 1, transposed=False),
    "conv3d_transpose_v2": forward((1, 16, 2, 2, 2), (16, 16, 2, 2, 2), 0, transposed=True),
    "convolution_1d_transpose": forward((1, 16, 2), (16, 16, 2), 0, transposed=True),
    "convolution_2d_transpose": forward((1, 16, 2, 2), (16, 16, 2, 2), 0, transposed=True),
    "convolution_3d_transpose": forward((1, 16, 2, 2, 2), (16, 16, 2, 2, 2), 0, transposed=True),
    "conv_depthwise_2d": ConvDepthwise2d(
        self=ones(2, 2, 2, 2),
        weight=ones(2, 1, 1, 1),
        kernel_size=1,
        bias=ones(2),
        stride=1,
        padding=0,
        dilation=1,
        cube_math_type=1,
    ),
    "conv_tbc": ConvTbc(
        self=ones(2, 2, 3), weight=ones(3, 3, 4), bias=ones(4), pad=1, cube_math_type=1
    ),
    "im2col": Im2col(
        self=np.arange(12, dtype=np.float32).reshape(2, 2, 3),
        kernel_size=2,
        dilation=1,
        padding=1,
        stride=2,
    ),
    "im2col_backward": Im2colBackward(
        grad_output=np.array([0.1, 1.1, 2.1, 3.1, 4.1, 5.1, 6.1, 7.1], np.float32).reshape(4, 2),
        input_size=1,
        kernel_size=2,
        dilation=1,
        padding=1,
        stride=(1, 2),
    ),
}
"""The calls of the samples, as their texts describe them."""


def source_of(kind: str, name: str) -> Path:
    (found,) = (FOLDER / kind).rglob(f"test_aclnn_{name}.cpp")
    return found


@pytest.mark.filterwarnings("ignore::opserve_client.DocumentedRuleWarning")
@pytest.mark.parametrize("name", CALLS)
def test_sample_compiles_without_a_warning_and_prints_what_the_sdk_gives(
    name: str, library: Path, service: Addresses, tmp_path: Path
) -> None:
    done = run(compiled(source_of("samples", name), library, tmp_path), library, service.rest)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr
    printed = re.findall(r"is: *(\S+)", done.stdout)
    with (
        Client(service.rest) as client,
        client.open_session("ascend910b", documented_rules="warn") as session,
    ):
        outputs = [one for one in session.run(CALLS[name]) if one is not None]
    expected = [f"{value:f}" for output in outputs for value in output.ravel().tolist()]
    assert printed
    assert printed == expected[: len(printed)]


@pytest.mark.parametrize(
    ("name", "passing", "depth"),
    [
        ("convolutin_backward", 69, 3),
        ("convolution_tbc_backward", 23, 3),
        ("convolution", 112, 3),
        ("conv_depthwise2d", 25, 3),
        ("conv_tbc", 12, 3),
        ("im2col", 14, 3),
        ("im2col_backward", 19, 4),
    ],
)
def test_all_rows_of_a_unit_test_pass_for_offered_products(
    name: str, passing: int, depth: int, library: Path, service: Addresses, tmp_path: Path
) -> None:
    program = unit_test(source_of("unit_tests", name), library, tmp_path, depth=depth)
    done = run(program, library, service.rest)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr
    outcomes = re.findall(
        r"^(passed|failed|other product)\t(\S+)\t(.*)$", done.stdout, re.MULTILINE
    )
    failed = {test: why for outcome, test, why in outcomes if outcome == "failed"}
    assert {test: why for test, why in failed.items() if OTHER_PRODUCT not in test} == {}
    assert sum(outcome == "passed" for outcome, _, _ in outcomes) >= passing


def unit_test(source: Path, library: Path, folder: Path, *, depth: int) -> Path:
    """Compiles a unit test, which includes its operator's header by a path, over the harness."""
    place = folder.joinpath(*("deep" for _ in range(depth)))
    place.mkdir(parents=True)
    shutil.copy(source, place)
    for header in (library / "include/aclnnop").glob("*.h"):
        operator = header.stem.removeprefix("aclnn_")
        for above in ("op_api", "op_host/op_api", f"conversion/{operator}/op_api"):
            (folder / above).mkdir(parents=True, exist_ok=True)
            (folder / above / header.name).write_text(f'#include "aclnnop/{header.name}"\n')
    program = folder / source.stem
    includes = (f"-I{path}" for path in (HARNESS, library / "include", folder))
    words = ["g++", "-std=c++20", "-w", *includes, f"-L{library}/lib"]
    sources = [f"{place / source.name}", f"{HARNESS / 'main.cpp'}"]
    subprocess.run([*words, *sources, "-o", f"{program}", "-lopapi", "-lascendcl"], check=True)
    return program
