"""Texts of aclnnConvolutionBackward's refusals: the given value, and profiles that support it."""

from dataclasses import replace
from typing import Any

import pytest

from kernels.execution import plan_of
from kernels.samples.convolution_backward import convolution
from kernels.samples.convolution_backward_errors import BASE, BASE_3D, EMPTY, tensor_of
from kernels.samples.convolution_backward_limits import call_with
from kernels.samples.sample import Sample
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.tensor import DataType, Format

OLDER = ("ascend910", "ascend310p")
_SHAPES = ((2, 4, 6, 7), (6, 4, 3, 2))


def in_dtype(dtype: DataType, **changes: Any) -> Sample:
    return convolution("call", *_SHAPES, dtypes=(dtype,) * 3, **changes)


def refusal_of(sample: Sample, profile: str) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(replace(sample, profile=profile))
    return refusal.value


def allowed(sample: Sample, profile: str) -> str:
    return refusal_of(sample, profile).allowed


@pytest.mark.parametrize("profile", OLDER)
@pytest.mark.parametrize("cube_math_type", [0, 3])
def test_cube_math_type_is_refused_naming_the_profiles_that_compute_so(
    profile: str, cube_math_type: int
) -> None:
    refusal = refusal_of(in_dtype(DataType.FLOAT, cube_math_type=cube_math_type), profile)

    assert refusal.given == f"{cube_math_type} for a computation in FLOAT"
    assert refusal.allowed == (
        f"1 or 2 on {profile}, which computes FLOAT as FLOAT16; "
        f"{cube_math_type} on ascend910b, reference"
    )


def test_dtype_is_refused_naming_the_profiles_that_have_it() -> None:
    bf16, double = in_dtype(DataType.BF16), in_dtype(DataType.DOUBLE)
    int8 = in_dtype(DataType.INT8)

    assert allowed(bf16, "ascend310p") == (
        "dtypes FLOAT, FLOAT16 on ascend310p; BF16 on ascend910b, reference"
    )
    assert allowed(double, "ascend910b") == (
        "dtypes FLOAT, FLOAT16, BF16 on ascend910b; DOUBLE on reference"
    )
    assert allowed(int8, "ascend910") == "dtypes FLOAT, FLOAT16 on ascend910"


@pytest.mark.parametrize("profile", OLDER)
def test_3d_is_refused_naming_the_profiles_that_have_it(profile: str) -> None:
    assert allowed(BASE_3D, profile) == (
        f"3 or 4 dimensions on {profile}; 5 on ascend910b, reference"
    )


@pytest.mark.parametrize("profile", OLDER)
def test_empty_tensors_are_refused_naming_the_profiles_that_take_them(profile: str) -> None:
    no_entries = convolution("N 0", (0, 4, 6, 7), _SHAPES[1], dtypes=(DataType.FLOAT16,) * 3)
    no_kernels = convolution("K 0", _SHAPES[0], (0, 4, 3, 2), dtypes=(DataType.FLOAT16,) * 3)

    for sample in (no_entries, no_kernels):
        assert allowed(sample, profile) == (
            f"a tensor that is not empty on {profile}; "
            "an input whose N or C is 0 on ascend910b, reference"
        )


def test_format_of_grad_bias_is_refused_naming_the_only_one() -> None:
    bias = tensor_of(BASE, "grad_bias", format=Format.NCHW)

    assert allowed(BASE.but("format", grad_bias=bias), "ascend910b") == "format ND"


def test_grouped_grad_weight_in_3d_is_refused_naming_the_profile_that_computes_it() -> None:
    grouped = convolution("grouped", (1, 4, 4, 4, 4), (4, 2, 2, 2, 2), groups=2, cube_math_type=2)

    assert allowed(grouped, "ascend910b").endswith(" on ascend910b; FLOAT on reference")


@pytest.mark.parametrize(
    ("rank", "free"), [(4, "ascend910, ascend310p, reference"), (5, "reference")]
)
def test_value_beyond_a_limit_is_refused_naming_the_profiles_without_it(
    rank: int, free: str
) -> None:
    assert allowed(call_with("dilation", rank, 0, 256), "ascend910b") == (
        f"values in [1, 255] on ascend910b; more on {free}"
    )


@pytest.mark.parametrize(
    ("name", "value", "range_"),
    [
        ("groups", 0, "a value >= 1"),
        ("cube_math_type", 4, "a value in [0, 3]"),
        ("cube_math_type", -1, "a value in [0, 3]"),
    ],
)
def test_scalars_are_described_as_scalars(name: str, value: int, range_: str) -> None:
    refusal = refusal_of(BASE.but("scalar", **{name: value}), "reference")

    assert (refusal.given, refusal.allowed) == (str(value), range_)
    assert refusal.message == f"{name} does not accept {value}; it accepts {range_}."


def test_groups_beyond_their_limit_are_reported_as_a_scalar() -> None:
    refusal = refusal_of(call_with("groups", 4, 0, 65536), "ascend910b")

    assert refusal.given == "65536"
    assert refusal.allowed.startswith("a value in [1, 65535] on ascend910b; ")


@pytest.mark.parametrize("profile", ["ascend910b", "reference"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [("weight", (6, 4, 3)), ("grad_output", (0, 6, 4)), ("weight", (6, 4, 1, 3, 2))],
)
def test_an_empty_input_has_as_many_dimensions_as_the_others(
    profile: str, name: str, shape: tuple[int, ...]
) -> None:
    layout = Format.NCL if len(shape) == 3 else Format.NCDHW
    changed = {name: tensor_of(EMPTY, name, shape=shape, format=layout)}
    if name == "weight":
        changed["grad_weight"] = tensor_of(EMPTY, "grad_weight", shape=shape, format=layout)
    refusal = refusal_of(EMPTY.but("ranks", **changed), profile)

    assert (refusal.parameter, refusal.given) == (name, f"shape {list(shape)}")
    assert refusal.allowed == "4 dimensions, as input has"
