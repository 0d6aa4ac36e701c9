"""Texts of the TBE operators' refusals: the given and the allowed value, and the reason."""

from collections.abc import Mapping
from typing import Any

import pytest

from kernels.execution import plan_of
from kernels.samples import conv2d_backprop_filter as dw
from kernels.samples import conv2d_backprop_input as dx
from kernels.samples.para_dicts import changed
from kernels.samples.sample import Sample
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.tensor import DataType, Format

_ONE = {"strides": (0,) * 5}
_OLDER: tuple[dx.Sizes, dx.Sizes] = ((2, 16, 5, 6), (16, 16, 3, 3))
_PLAIN = {"filters": {"shape": (16, 16, 1, 1)}, "filter_sizes": (16, 16, 1, 1)}
_POINT = dx.gradient("one tap", (1, 16, 7, 7), (16, 16, 1, 1))


def _message(sample: Sample, changes: Mapping[str, Any]) -> str:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(changed(sample, "refused", changes))
    return refusal.value.message


@pytest.mark.parametrize(
    ("sample", "changes", "message"),
    [
        (
            dx.gradient("float", *_OLDER, dtype=DataType.FLOAT, profile="ascend910"),
            {},
            (
                "filters does not accept dtype FLOAT; "
                "it accepts dtypes FLOAT16 on ascend910; FLOAT on reference"
            ),
        ),
        (
            dx.gradient("bf16", *_OLDER, profile="ascend310p"),
            {"out_backprop": {"dtype": DataType.BF16}},
            (
                "out_backprop does not accept dtype BF16; "
                "it accepts dtypes FLOAT16 on ascend310p; BF16 on "
                "ascend910b, reference"
            ),
        ),
        (
            dx.gradient("int8", *_OLDER, dtype=DataType.INT8, profile="ascend910"),
            {},
            "filters does not accept dtype INT8; it accepts dtypes FLOAT16 on ascend910",
        ),
        (
            dx.gradient("result", *_OLDER, res_dtype="bfloat16", profile="ascend910"),
            {},
            (
                "para_dict.res_dtype does not accept dtype bfloat16; "
                "it accepts dtypes float16, float32 on "
                "ascend910; bfloat16 on ascend910b, reference"
            ),
        ),
        (
            dw.gradient("double", *_OLDER, dtype=DataType.DOUBLE, profile="ascend310"),
            {},
            (
                "input_x does not accept dtype DOUBLE; "
                "it accepts dtypes FLOAT16 on ascend310; DOUBLE on reference"
            ),
        ),
        (
            dw.gradient("result", *_OLDER, res_dtype="float64", profile="ascend910"),
            {},
            (
                "para_dict.res_dtype does not accept dtype float64; "
                "it accepts dtypes float32 on ascend910; "
                "float64 on reference"
            ),
        ),
    ],
)
def test_a_dtype_is_refused_with_the_profiles_that_have_it(
    sample: Sample, changes: Mapping[str, Any], message: str
) -> None:
    assert _message(sample, changes) == f"{message}."


@pytest.mark.parametrize(
    ("sample", "changes", "message"),
    [
        (
            _POINT,
            {"para_dict.strides": (0, 1)},
            (
                "out_backprop does not accept height 7 times stride 0 = 0; "
                "it accepts 1 to 200000 for height "
                "times its stride"
            ),
        ),
        (
            _POINT,
            {"para_dict.strides": (40, 15)},
            (
                "out_backprop does not accept width 7 times stride 15 times stride 40 = 4200; "
                "it accepts 1 to "
                "4096 for width times its stride, and times the height's stride for a kernel of "
                "1 x 1"
            ),
        ),
        (
            dx.gradient("exact", *_OLDER, profile="reference"),
            {"para_dict.strides": (1, -1)},
            (
                "out_backprop does not accept width 4 times stride -1 = -4; "
                "it accepts at least 1 for width "
                "times its stride, and times the height's stride for a kernel of 1 x 1"
            ),
        ),
        (
            dx.BASE,
            {"filters": {"shape": (9, 1, 16, 16)}},
            (
                "filters does not accept dimension 1 of size 1; "
                "it accepts dimension 1 of size 2, the "
                "dy_c1_extend of filter_sizes and groups"
            ),
        ),
        (
            dx.BASE,
            {"para_dict.dilations": (2, 1, 1, 1)},
            (
                "para_dict.dilations does not accept N and C [2, 1]; "
                "it accepts N and C [1, 1], for only "
                "height and width may be dilated"
            ),
        ),
        (
            dw.gradient("dilated", *_OLDER, dilations=(1, 1, 1, 2)),
            {"para_dict.strides": (64, 1)},
            (
                "para_dict.strides does not accept [64, 1]; "
                "it accepts 1 to 63 for height and width, unless "
                "dilations are ones"
            ),
        ),
    ],
)
def test_a_refusal_states_the_given_value_and_the_source_of_the_allowed_one(
    sample: Sample, changes: Mapping[str, Any], message: str
) -> None:
    assert _message(sample, changes) == f"{message}."


@pytest.mark.parametrize(
    ("sample", "changes", "hint"),
    [
        (_POINT, _PLAIN, "to_fractal_z"),
        (_POINT, {"filters": {"shape": (16, 16)}}, "to_fractal_z"),
        (_POINT, {"filters": {"format": Format.NCHW}}, "to_fractal_z"),
        (_POINT, {"out_backprop": {"shape": (1, 16, 7, 7)}}, "to_5hd"),
        (_POINT, {"out_backprop": {"shape": (1, 16, 1, 7, 7)}}, "to_5hd"),
        (_POINT, {"out_backprop": {"format": Format.NCDHW}}, "to_5hd"),
        (dw.BASE, {"input_x": {"shape": (2, 16, 5, 6)}}, "to_5hd"),
        (dw.BASE, {"input_x": {"format": Format.NCHW}}, "to_5hd"),
    ],
)
def test_a_tensor_in_plain_order_is_refused_with_the_conversion_to_its_format(
    sample: Sample, changes: Mapping[str, Any], hint: str
) -> None:
    assert f"opserve_client.{hint} makes" in _message(sample, changes)


@pytest.mark.parametrize(
    ("dtype", "size"), [(DataType.FLOAT16, 2), (DataType.FLOAT, 4), (DataType.DOUBLE, 8)]
)
def test_bytes_are_those_of_the_dtype(dtype: DataType, size: int) -> None:
    sample = dw.gradient(
        "vast",
        (2**63 // 16 // size, 16, 1, 1),  # the least batch of too many bytes
        (16, 16, 1, 1),
        dtype=dtype,
        profile="reference",
        layout={"input_x": _ONE, "out_backprop": _ONE},
    )

    assert _message(sample, {}) == (
        f"out_backprop does not accept {2**63} bytes; it accepts at most 2^63-1 bytes."
    )


def test_a_tensor_that_no_device_holds_is_refused_after_all_rules() -> None:
    layout = dict.fromkeys(("out_backprop", "res_tensor"), _ONE)
    sample = dx.gradient(
        "vast", (2**57, 16, 1, 1), (16, 16, 1, 1), layout=layout, profile="reference"
    )

    assert _message(sample, {}).startswith(
        "call does not accept a tensor of 2305843009213693952 elements"
    )
    assert _message(sample, {"para_dict.offset_x": 1}).startswith("para_dict.offset_x ")
