"""The reader of benchdnn: calls of problem strings, by hand, and its refusals."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.corpora import FOLDER
from kernels.cases.read_cases import Row, only, shapes
from kernels.cases.runs import plan_of
from opserve_kernels.cases.calls import Setting
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.readers.benchdnn import read_benchdnn
from opserve_kernels.tensor import DataType


def _problem(text: str) -> tuple[Case, tuple[Row, Row, Row]]:
    case = only(read_benchdnn(text))
    return case, shapes(case)


@pytest.mark.parametrize(
    ("text", "input_", "weight", "output", "steps"),
    [
        (
            'conv mb3_ic17oc19_ih8oh4kh3sh2ph1_n"square, and floor"',
            *((3, 17, 8, 8), (19, 17, 3, 3), (3, 19, 4, 4)),
            {"stride": (2, 2), "padding": (1, 1), "dilation": (1, 1)},
        ),
        (
            "g4ic16id5oc8od5kd3pd1n",
            *((2, 16, 5, 5, 5), (8, 4, 3, 3, 3), (2, 8, 5, 5, 5)),
            {"groups": 4, "padding": (1, 1, 1)},
        ),
        (
            "ic4oc6_iw13kw3dw1",
            *((2, 4, 13), (6, 4, 3), (2, 6, 9)),
            {"dilation": (2,), "padding": (0,)},
        ),
        (
            'mb20ic4ih8iw8oc6oh4ow8kh3kw3sh2sw1ph1pw1dh1dw0n"sides differ"',
            *((20, 4, 8, 8), (6, 4, 3, 3), (20, 6, 4, 8)),
            {"stride": (2, 1), "padding": (1, 2, 1, 1), "dilation": (2, 1)},
        ),
        (
            "ic4oc4_iw5ow5kw4pw1",
            *((2, 4, 1, 5), (4, 4, 1, 4), (2, 4, 1, 5)),
            {"padding": (0, 0, 1, 2), "stride": (1, 1)},
        ),
        (
            "mb1ic4oc4_kd1kh1kw4_id1ih6iw5_od1oh6ow5_pd0ph0pw1",
            *((1, 4, 6, 5), (4, 4, 1, 4), (1, 4, 6, 5)),
            {"padding": (0, 0, 1, 2)},
        ),
        (
            "ic3oc4_ih16oh16kh3",
            *((2, 3, 16, 16), (4, 3, 3, 3), (2, 4, 16, 16)),
            {"padding": (1, 1)},
        ),
        (
            "deconv g1mb96ic64iw112oc3ow224kw7sw2pw3",
            *((96, 64, 112), (64, 3, 7), (96, 3, 224)),
            {"transposed": True, "padding": (3,), "output_padding": (1,)},
        ),
        (
            "--deconv ic4oc6_ih5kh3sh2ph1",
            *((2, 4, 5, 5), (4, 6, 3, 3), (2, 6, 9, 9)),
            {"transposed": True, "stride": (2, 2), "output_padding": (0, 0)},
        ),
    ],
)
def test_problem_string_is_converted_into_a_call(
    text: str, input_: Row, weight: Row, output: Row, steps: dict[str, Any]
) -> None:
    case, shapes = _problem(text)

    assert shapes == (input_, weight, output)
    assert {name: case.arguments[name] for name in steps} == steps
    assert case.arguments["output_mask"] == (True, True, True)
    assert case.source == text


_PLAIN = "ic4oc4_ih6kh3"


_OPTIONS: list[tuple[str, int, Callable[[Case], bool]]] = [
    ("--dir=BWD_D", 1, lambda case: case.written == ("grad_input",)),
    ("--dir=BWD_W,BWD_WB", 2, lambda case: "grad_weight" in case.written),
    (
        "--dt=f16",
        1,
        lambda case: {t.dtype for t in case.tensors.values()} == {DataType.FLOAT16},
    ),
    ("--dt=f32:f32:f16", 1, lambda case: case.tensors["grad_output"].dtype == DataType.FLOAT16),
    ("--dt=f32,bf16 --mb=1,5", 4, lambda case: case.tensors["input"].shape[0] in {1, 5}),
    ("--mb=0", 1, lambda case: case.tensors["input"].shape[0] == 2),
    ("--stag=axb", 1, lambda case: case.tensors["grad_input"].strides == (144, 1, 24, 4)),
    ("--dtag=axb", 1, lambda case: case.tensors["grad_output"].strides == (64, 1, 16, 4)),
    (
        "--strides=200x40x6x1::",
        1,
        lambda case: case.tensors["input"].strides == (200, 40, 6, 1),
    ),
    ("--mode=P --match=x --summary=1", 1, lambda case: not case.outputs["grad_bias"].offset),
    ("-v5 -c --mode=B --attr-deterministic=true", 1, lambda case: case.written[-1] == "grad_bias"),
    (
        "--attr-post-ops=relu --attr-post-ops= --attr-fpmath=strict",
        1,
        lambda case: len(case.written) == 3,
    ),
    ("--dir=bwd_d --dt=BF16", 1, lambda case: case.outputs["grad_input"].dtype == DataType.BF16),
    (
        "--dir=BWD_W --bia-dt=undef,f32",
        2,
        lambda case: "grad_weight" in case.written,
    ),
    (
        "--cfg=f16,bf16bf16bf16",
        2,
        lambda case: case.tensors["input"].dtype in {DataType.FLOAT16, DataType.BF16},
    ),
    ("--strides=200x40x6x1::,400x80x12x2::", 2, lambda case: not case.tensors["weight"].strides),
    ("--stag=axb,abx", 2, lambda case: not case.tensors["grad_output"].strides),
]


@pytest.mark.parametrize(("options", "count", "found"), _OPTIONS)
def test_options_select_the_outputs(
    options: str, count: int, found: Callable[[Case], bool]
) -> None:
    read = read_benchdnn(f"{options} {_PLAIN}")

    assert read.refused == ()
    assert len(read.cases) == count
    assert all(found(case) and plan_of(case).units > 0 for case in read.cases)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("ic4oc4_ih9oh5kh3ph0", "none below 0"),
        ("ic4oc4_id5od4kd3pd1", "a 3-D call cannot express"),
        ("ic4oc4_ih6kh3z9", "'z9'"),
        ("ic4_ih6kh3", "ic and oc"),
        ("ic4oc4", "sizes"),
        ("ic4oc4_ih6", "kh are needed"),
        ("ic4oc4_ih2kh3", "out of range"),
        ("g3ic4oc6_ih6kh3", "no multiple"),
        ("ic4oc4_ih6kh3sh0", "below 1"),
        ("ic4oc4_ih6kh3pw1", "iw and kw are needed"),
        ("mb0ic4oc4_ih6kh3", "out of range"),
        ("g0ic4oc4_ih6kh3", "no multiple of 0"),
        ("ic4oc4_ih13oh3kh1sh5", "-1 in front"),
        ("ic4oc4_iw300kw256", "it accepts values in [1, 255] on ascend910b"),
        ("mb99999ic9999oc9999_ih99kh3", "at most 1073741824"),
        ("ic99999999999oc4_ih6kh3", "9 digits"),
        (f"--dir=FWD_B {_PLAIN}", "it accepts gradients"),
        (f"--dt=s8:s8:s32 {_PLAIN}", "'s8'"),
        (f"--dt=f64 {_PLAIN}", "no 2-D convolution in DOUBLE"),
        (f"--dt=f32:f32 {_PLAIN}", "src:wei:dst"),
        (f"--stag=aBcd16b {_PLAIN}", "aBcd16b"),
        (f"--stag=nwc {_PLAIN}", "'nwc' orders no tensor of 4 axes"),
        ("--stag=abcdx ic4oc4_iw6kw3", "'abcdx'"),
        (f"--wtag=axb g2{_PLAIN}", "not adjacent"),
        (f"--stag=axb --strides=144x36x6x1:: {_PLAIN}", "beside the layout 'axb'"),
        (f"--strides=0x36x6x1:: {_PLAIN}", "grad_input: steps [0, 36, 6, 1] lead"),
        (f"--strides=999999999x36x6x1:: --mb=3 {_PLAIN}", "at most 1073741824"),
        (f"--bia-dt=s32 {_PLAIN}", "'s32'"),
        (f"--cfg=u8s8s32 {_PLAIN}", "'u8'"),
        (f"--attr-post-ops=relu --attr-scales= {_PLAIN}", "--attr-post-ops=relu"),
        (f"--buffer-prefix=data {_PLAIN}", "--buffer-prefix=data"),
        (f"--strides=1x2:: {_PLAIN}", "4 axes"),
        (f"--attr-fpmath=bf16 {_PLAIN}", "--attr-fpmath=bf16"),
        (f"--frobnicate {_PLAIN}", "--frobnicate"),
        ("--batch=shapes_all", "no file is read"),
    ],
)
def test_problem_that_cannot_be_expressed_is_listed_with_the_reason(line: str, reason: str) -> None:
    read = read_benchdnn(f"# a comment\n\n{line}\n")

    assert read.cases == ()
    (refused,) = read.refused
    assert (refused.line, refused.text) == (3, line)
    assert reason in refused.reason


@pytest.mark.parametrize(
    ("options", "problem", "tensor", "steps"),
    [
        ("--stag=nhwc", "ic4oc6_ih6kh3", "grad_input", (144, 1, 24, 4)),
        ("--stag=chwn", "ic4oc6_ih6kh3", "input", (1, 72, 12, 2)),
        ("--stag=abcd", "ic4oc6_ih6kh3", "input", None),
        ("--dtag=ndhwc", "ic4oc6_id4kd3", "grad_output", (48, 1, 24, 12, 6)),
        ("--stag=nwc", "ic4oc6_iw6kw3", "input", (24, 1, 4)),
        ("--stag=axb", "ic4oc4_iw5ow5kw4pw1", "input", (20, 1, 1, 4)),
        ("--stag=axb", "ic4oc4_id1kd1ih5oh5kh4ph1iw3kw1", "input", (60, 1, 12, 4)),
        ("--wtag=ohwi", "ic4oc6_ih6kh3", "weight", (36, 1, 12, 4)),
        ("--wtag=hwio", "ic4oc6_ih6kh3", "grad_weight", (1, 6, 72, 24)),
        ("--wtag=goihw", "g2ic4oc6_ih6kh3", "weight", None),
        ("--wtag=gohwi", "g2ic4oc6_ih6kh3", "weight", (18, 1, 6, 2)),
        ("--wtag=hwigo", "g2ic4oc6_ih6kh3", "weight", (1, 6, 36, 12)),
        ("--wtag=axb", "g1ic4oc6_ih6kh3", "weight", (1, 54, 18, 6)),
        ("--wtag=axb", "g4ic4oc4_ih6kh3", "weight", None),
        ("--strides=:108x36x18x6x2:", "g2ic4oc6_ih6kh3", "weight", (36, 18, 6, 2)),
        ("--wtag=oihw --deconv", "ic4oc6_ih6kh3", "weight", (9, 36, 3, 1)),
        ("--wtag=giohw --deconv", "g2ic4oc6_ih6kh3", "weight", None),
    ],
)
def test_layouts_are_those_of_benchdnns_own_axes(
    options: str, problem: str, tensor: str, steps: Row | None
) -> None:
    """Strides by hand: the product of the inner sizes."""
    read = read_benchdnn(f"{options} {problem}")

    assert only(read).tensors[tensor].strides == steps


def test_a_bias_has_its_own_dtype() -> None:
    line = f"--dir=BWD_W --dt=bf16 --bia-dt=f32 {_PLAIN}"
    case = only(read_benchdnn(line, Setting(profile="reference")))

    assert case.written == ("grad_weight", "grad_bias")
    assert case.outputs["grad_bias"].dtype == DataType.FLOAT


def test_a_gradient_that_the_page_has_in_another_dtype_is_refused_on_a_product() -> None:
    (refused,) = read_benchdnn(f"--dir=BWD_W --dt=bf16 --bia-dt=f32 {_PLAIN}").refused

    assert refused.reason == (
        "ascend910b rejects the call: grad_bias does not accept dtype FLOAT; it accepts dtype BF16."
    )


def test_a_line_that_benchdnn_printed_is_a_command_of_its_own() -> None:
    printed = f"3:FAILED (errors:2 total:96) __REPRO: --conv --dir=BWD_D --dt=f16 {_PLAIN}"

    read = read_benchdnn(f"--dir=BWD_W\n{printed}\n{_PLAIN}")

    assert [case.written for case in read.cases] == [("grad_input",), ("grad_weight",)]
    assert read.cases[0].tensors["input"].dtype == DataType.FLOAT16


def test_options_hold_for_lines_below_until_they_are_reset() -> None:
    text = f"--dir=BWD_D --mb=3\n{_PLAIN}\n--attr-scales=src:common:2\n{_PLAIN}\n--reset\n{_PLAIN}"

    read = read_benchdnn(text)

    assert [case.written for case in read.cases] == [
        ("grad_input",),
        ("grad_input", "grad_weight", "grad_bias"),
    ]
    assert [refused.line for refused in read.refused] == [4]


_NUMBERS = st.one_of(st.integers(0, 9), st.sampled_from((-1, 16, 255, 4096, 10**9, 10**12)))
_KEYS = st.sampled_from(
    (*("g", "mb", "ic", "oc"), *(f"{one}{axis}" for one in "iokspd" for axis in "dhw"), "n", "q_")
)
_PROBLEMS = st.lists(st.tuples(_KEYS, _NUMBERS), max_size=8).map(
    lambda parts: "".join(f"{key}{number}" for key, number in parts)
)
_SAID = st.sampled_from(
    (
        *("--dir=BWD_D,BWD_WB", "--dt=f32,bf16:f16:f32", "--bia-dt=f16", "--mb=0,3", "--deconv"),
        *(
            "--stag=axb,cdba",
            "--wtag=hwigo,xba",
            "--dtag=nwc,abc",
            "--strides=::,9x3x1:0:",
            "--cfg=",
        ),
        *("--reset", "--attr-x=", "--batch=", "-", "--", "--=", "__REPRO:", '"', "conv", "--mb=,"),
    )
)


@given(st.lists(st.one_of(_PROBLEMS.map("ic4oc4ih6kh3".__add__), _PROBLEMS, _SAID)))
def test_every_batch_file_makes_calls_that_can_be_planned(words: list[str]) -> None:
    read = read_benchdnn(" ".join(words) + "\n" + "\n".join(words), most=20)

    assert all(plan_of(case).shares is not None for case in read.cases)
    assert all(refused.reason for refused in read.refused)


def test_every_problem_of_the_sample_is_read_with_the_sizes_that_it_says() -> None:
    text = (FOLDER / "benchdnn.txt").read_text()
    read = read_benchdnn(text)

    assert (len(read.cases), read.refused) == (100, ())
    for case in read.cases:
        assert plan_of(case).units > 0
        problem = case.source.partition('n"')[0]
        for axis, size in re.findall(r"o([dhw])(\d+)", problem):
            sizes = case.tensors["grad_output"].shape[2:]
            kept = "dhw"[-len(sizes) :]
            assert axis not in kept or sizes[kept.index(axis)] == int(size)
