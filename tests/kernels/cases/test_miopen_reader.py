"""The reader of MIOpenDriver: calls of command lines, by hand, and its refusals."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.corpora import FOLDER
from kernels.cases.read_cases import Row, only, shapes
from kernels.cases.runs import plan_of
from opserve_kernels.cases.readers.miopen import read_miopen
from opserve_kernels.tensor import DataType


@pytest.mark.parametrize(
    ("line", "input_", "weight", "output", "steps"),
    [
        (
            "MIOpenDriver conv -n 1 -c 40 -H 20 -W 22 -k 20 -y 3 -x 5 -p 1 -q 2 -v 2 -g 2 -F 6",
            *((1, 40, 20, 22), (20, 20, 3, 5), (1, 20, 20, 11)),
            {"stride": (1, 2), "padding": (1, 2), "groups": 2, "output_mask": (True, True, False)},
        ),
        (
            "bin/MIOpenDriver convbfp16 -n 2 -c 4 -H 5 -W 5 -k 6 -m trans -u 2 -v 2 -Y 1 -F 2",
            *((2, 4, 5, 5), (4, 6, 3, 3), (2, 6, 12, 11)),
            {"transposed": True, "output_padding": (1, 0), "output_mask": (True, False, False)},
        ),
        (
            "convfp16 --batchsize 2 --in_channels=4 -H 8 -W 8 --out_channels 6 --forw 4 -b 1 -V 0",
            *((2, 4, 8, 8), (6, 4, 3, 3), (2, 6, 6, 6)),
            {"output_mask": (False, True, True)},
        ),
        (
            "conv -_ 3 -n 1 -c 2 -! 5 -H 6 -W 7 -k 3 -@ 2 -$ 1 -q 1 -# 2 -^ 1 -l 2",
            *((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), (1, 3, 3, 2, 7)),
            {"stride": (2, 1, 1), "padding": (1, 0, 1), "dilation": (1, 2, 1)},
        ),
        (
            "conv -n 1 -c 3 -k 2 -z valid -p 1 -q 1",
            *((1, 3, 32, 32), (2, 3, 3, 3), (1, 2, 30, 30)),
            {"padding": (0, 0)},
        ),
        (
            "conv -n 1 -c 3 -k 2 -z same -H 9 -W 8 -y 5 -x 7 -u 4 -v 2 -p 9 -g 0 -Z 0 -L 1",
            *((1, 3, 9, 8), (2, 3, 5, 7), (1, 2, 3, 3)),
            {"padding": (2, 2), "groups": 1},
        ),
        (
            "conv -n 1 -c 3 -k 2 -z same -p 1 -l 2",
            *((1, 3, 32, 32), (2, 3, 3, 3), (1, 2, 30, 30)),
            {"padding": (1, 0), "dilation": (2, 1)},
        ),
    ],
)
def test_command_line_is_converted_into_a_call(
    line: str, input_: Row, weight: Row, output: Row, steps: dict[str, Any]
) -> None:
    case = only(read_miopen(line))

    assert shapes(case) == (input_, weight, output)
    assert {name: case.arguments[name] for name in steps} == steps


def test_command_line_lays_out_and_types_tensors() -> None:
    case = only(read_miopen("convfp16 -n 2 -c 3 -H 4 -W 5 -k 2 -I NHWC -O NCHW -f NHWC"))

    assert case.tensors["input"].strides == case.tensors["grad_input"].strides == (60, 1, 15, 3)
    assert case.tensors["grad_weight"].strides == (27, 1, 9, 3)
    assert case.tensors["grad_output"].strides is None
    assert {tensor.dtype for tensor in case.tensors.values()} == {DataType.FLOAT16}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("MIOpenDriver", "program does not accept ''"),
        ("pool -n 1", "'pool'"),
        ("convint8 -n 1", "'convint8'"),
        ("conv -F 1", "forward convolution only"),
        ("conv -n", "no value"),
        ("conv -n x", "integer"),
        ("conv -e weights.bin", "'-e'"),
        ("conv 5", "'5'"),
        ("conv -m deconv", "conv or trans"),
        ("conv -_ 4", "2 or 3"),
        ("conv -z full", "pad_mode does not accept 'full'; it accepts default, same and valid"),
        ("conv -Z 1 -L 4", "no tensor of vectors"),
        ("conv -z same -u 0", "conv_stride does not accept [0, 1]; it accepts at least 1"),
        ("conv -j 0", "dilation does not accept [1, 0]; it accepts at least 1"),
        ("conv -q -1", "pad does not accept [0, -1]; it accepts at least 0"),
        ("conv -I NCHWc4", "NCHWc4"),
        ("conv -c 4 -g 3", "no multiple"),
        ("conv -H 1 -W 1", "out of range"),
    ],
)
def test_command_line_that_cannot_be_expressed_is_listed_with_the_reason(
    line: str, reason: str
) -> None:
    read = read_miopen(line)

    assert read.cases == ()
    assert reason in read.refused[0].reason


_NUMBERS = st.one_of(st.integers(0, 9), st.sampled_from((-1, 16, 255, 4096, 10**9, 10**12)))
_FLAGS = st.tuples(st.sampled_from("ncHWkyxpquvljg!@$#^%YXmFbzIOf_ZLV"), _NUMBERS)


@given(
    st.lists(_FLAGS, max_size=6),
    st.sampled_from(("", " -m trans", " -z same", " -_ 3", " -I NHWC")),
)
def test_every_command_makes_a_call_that_can_be_planned(
    flags: list[tuple[str, int]], last: str
) -> None:
    small = "conv -n 1 -c 4 -k 4 -H 6 -W 6 -! 6"
    read = read_miopen(small + "".join(f" -{flag} {number}" for flag, number in flags) + last)

    assert len(read.cases) + len(read.refused) == 1
    assert all(plan_of(case).shares is not None for case in read.cases)


def test_every_command_of_the_sample_is_read_or_is_forward_only() -> None:
    read = read_miopen((FOLDER / "miopen.txt").read_text())

    assert len(read.cases) == 57
    assert [refused.text[-4:] for refused in read.refused] == ["-F 1"] * 3
    assert all(plan_of(case).units > 0 for case in read.cases)
