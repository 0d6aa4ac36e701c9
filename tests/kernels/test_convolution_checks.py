"""Edges of aclnnConvolution's rules: the values on both sides, and calls that a rule excepts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.execution import execute, plan_of
from kernels.samples.conv_depthwise2d import filters
from kernels.samples.conv_tbc import times
from kernels.samples.layers import BF16, FLOAT, FLOAT16, channels_last, layer, tagged
from kernels.samples.sample import Sample
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.status import AnyStatus, Status
from opserve_kernels.tensor import DataType, Format

_HALVES = (FLOAT16,) * 4
_T: dict[str, Any] = {"transposed": True}
_RUNTIME, _INVALID = Status.ACLNN_ERR_RUNTIME_ERROR, Status.ACLNN_ERR_PARAM_INVALID


def _refusal(sample: Sample) -> tuple[AnyStatus, str] | None:
    try:
        plan_of(sample)
    except InvalidArgument as refusal:
        return refusal.status, refusal.parameter
    return None


def _warned(sample: Sample) -> list[str]:
    return [warning.parameter for warning in plan_of(sample).warnings]


@pytest.mark.parametrize(
    ("dtype", "plane", "is_refused"),
    [
        (FLOAT16, (63, 65), False),  # 16 channels in a block: 65,520 values
        (FLOAT16, (64, 64), True),  # 65,536
        (FLOAT, (90, 91), False),  # 8 channels: 65,520
        (FLOAT, (64, 128), True),
    ],
)
def test_a_3d_block_of_channels_has_at_most_65535_values(
    dtype: DataType, plane: tuple[int, int], *, is_refused: bool
) -> None:
    high, wide = plane
    sample = layer("", (1, 1, 1, high, wide + 1), (1, 1, 1, *plane), dtypes=(dtype,) * 4)
    assert _refusal(sample) == ((_RUNTIME, "weight") if is_refused else None)


@pytest.mark.parametrize(
    "sample",
    [
        layer("block", (0, 1, 1, 64, 66), (1, 1, 1, 64, 65), dtypes=_HALVES),
        layer("stride", (0, 1, 2, 70, 70), (1, 1, 1, 2, 2), stride=(1, 64, 1), dtypes=_HALVES),
        layer("output", (0, 2, 4, 4), (2, 3, 2, 2), dtypes=(*_HALVES[:3], FLOAT), **_T),
    ],
    ids=lambda sample: sample.name,
)
def test_an_empty_call_is_planned_no_further_so_nothing_of_it_fails(sample: Sample) -> None:
    assert plan_of(sample).units == 0
    tensors = {"input": sample.inputs["input"], "output": sample.outputs["output"]}
    one_entry = {name: (1, *tensor.shape[1:]) for name, tensor in tensors.items()}
    refusal = _refusal(_shaped(sample, **one_entry))
    assert refusal is not None
    assert refusal[0] is _RUNTIME


def _shaped(sample: Sample, **shapes: tuple[int, ...]) -> Sample:
    """The same call with tensors of other shapes."""
    changes: dict[str, Any] = {}
    for name, shape in shapes.items():
        tensor = sample.tensors[name]
        assert tensor is not None
        changes[name] = replace(tensor, shape=shape)
    return sample.but(sample.name, **changes)


def test_sizes_of_an_empty_input_below_the_kernel_are_truncated_towards_zero() -> None:
    """(1 - 1 - 1)/2 is 0 in C, so there is one position; the floor would leave none."""
    sample = layer("", (0, 2, 1), (3, 2, 2), stride=(2,))
    assert _refusal(_shaped(sample, output=(0, 3, 0))) == (_INVALID, "output")
    assert _refusal(_shaped(sample, output=(0, 3, 1))) is None


_PLAIN = layer("", (1, 2, 5, 5), (3, 2, 2, 2))
_LAST = channels_last(layer("", (1, 2, 4, 4, 4), (3, 2, 2, 2, 2)), "", "output")


@pytest.mark.parametrize(
    ("sample", "parameter"),
    [
        (_shaped(_PLAIN, weight=(3, 2, 2), output=(1, 3)), "output"),  # 2 dimensions fit nothing
        (_shaped(_PLAIN, bias=(4,)).but("", stride=(1,)), "bias"),
        (tagged(_shaped(_PLAIN, bias=(4,)), "", "weight", Format.ND), "bias"),
        (tagged(_LAST, "", "bias", Format.NHWC), "output"),
        (tagged(tagged(_PLAIN, "", "bias", Format.NHWC), "", "weight", Format.ND), "bias"),
        (tagged(tagged(_PLAIN, "", "input", Format.ND), "", "weight", Format.ND), "input"),
    ],
)
def test_of_two_broken_rules_the_error_names_the_one_that_the_source_checks_first(
    sample: Sample, parameter: str
) -> None:
    assert _refusal(sample) == (_INVALID, parameter)


def test_the_bias_of_a_transposed_call_has_the_channels_of_a_weight_with_channels_last() -> None:
    sample = channels_last(
        layer("", (1, 2, 3, 3, 3), (2, 4, 2, 2, 2), groups=2, **_T), "", "weight"
    )
    assert _refusal(sample) is None
    assert _refusal(_shaped(sample, bias=(4,))) == (_INVALID, "bias")


def _wide_kernel(padding: tuple[int, ...], batch: int = 1) -> Sample:
    """A transposed call whose kernel spans 257 along W, so that W's padding must be 2."""
    return layer(
        "", (batch, 1, 9, 9), (1, 1, 1, 258), padding=padding, stride=(3, 1), dtypes=_HALVES, **_T
    )


def test_four_paddings_of_a_transposed_call_are_compared_as_if_they_were_two() -> None:
    """The source compares the one below the image with the span along W."""
    assert _refusal(_wide_kernel((0, 2))) is None
    assert _refusal(_wide_kernel((0, 1))) == (_INVALID, "padding")
    assert _refusal(_wide_kernel((0, 2, 0, 0))) is None
    assert _refusal(_wide_kernel((0, 0, 2, 2))) == (_INVALID, "padding")


def test_the_span_of_an_empty_transposed_call_is_not_compared() -> None:
    assert _refusal(_wide_kernel((0, 1), batch=0)) is None


def test_the_output_is_checked_before_cube_math_type() -> None:
    sample = layer("", (1, 2, 5), (3, 2, 2), cube_math_type=5)
    assert _refusal(sample) == (_INVALID, "cube_math_type")
    assert _refusal(_shaped(sample, output=(2, 3, 4))) == (_INVALID, "output")


@pytest.mark.parametrize(
    ("input_", "weight", "changes", "keeps"),
    [
        ((1, 1, 1, 255, 257), (1, 1, 1, 1, 1), {}, True),  # 65,535 positions
        ((1, 1, 1, 256, 256), (1, 1, 1, 1, 1), {}, False),
        ((1, 1, 1, 1, 2), (1, 1, 1, 1, 1), {"padding": (0, 0, 1)}, False),
        ((1, 2, 1, 1, 2), (2, 1, 1, 1, 1), {"groups": 2}, False),
    ],
)
def test_a_pointwise_3d_call_keeps_its_bias_with_few_positions_no_padding_and_one_group(
    input_: tuple[int, ...], weight: tuple[int, ...], changes: dict[str, Any], *, keeps: bool
) -> None:
    """The bias is 1 in FLOAT16: then it and the product, -1, leave nothing."""
    sample = layer("", input_, weight, dtypes=(FLOAT16, FLOAT16, FLOAT, FLOAT16), **changes)
    buffers = sample.buffers()
    for name, value in (("input", -1), ("weight", 1), ("bias", 1 + 2.0**-12)):
        sample.inputs[name].view(buffers[name])[...] = value

    execute(sample, buffers)

    output = sample.outputs["output"].view(buffers["output"])
    inner = output[..., 1:-1] if "padding" in changes else output
    assert np.all(inner == (2.0**-12 if keeps else 0))


def test_an_empty_call_with_negative_padding_succeeds_with_a_warning() -> None:
    calls = (
        (layer("", (0, 2, 7), (3, 2, 2), padding=(-1,), dtypes=_HALVES), "padding"),
        (layer("", (0, 2, 7), (2, 3, 2), padding=(-1,), dtypes=_HALVES, **_T), "padding"),
        (filters("", (0, 2, 7, 7), padding=(-1, 0), dtype=FLOAT16), "padding"),
        (times("", (9, 0, 4), pad=-1, dtypes=(FLOAT16, FLOAT16)), "pad"),
    )
    for sample, parameter in calls:
        plan = plan_of(sample)
        assert plan.units == 0
        assert parameter in {warning.parameter for warning in plan.warnings}


def test_negative_padding_of_a_full_call_is_refused() -> None:
    for transposed in (False, True):
        weight = (2, 3, 2) if transposed else (3, 2, 2)
        sample = layer("", (1, 2, 7), weight, padding=(-1,), transposed=transposed)
        assert _refusal(sample) == (_INVALID, "padding")


def test_a_matrix_product_beyond_the_pages_ranges_is_warned_of() -> None:
    ones = (1,) * 5
    within = layer("", ones, ones, stride=(1, 63, 1), dtypes=_HALVES)
    beyond = layer("", ones, ones, stride=(1, 64, 1), dtypes=_HALVES)
    image = (1, 1, 1, 1, 512)
    assert _warned(within) == []
    assert _warned(beyond) == ["stride"]
    assert _warned(layer("", image, image, dtypes=_HALVES)) == ["weight"]


@pytest.mark.parametrize("profile", ["ascend910b", "ascend310p"])
def test_a_transposed_3d_padding_beyond_255_is_warned_of(profile: str) -> None:
    for padding, expected in ((255, False), (256, True)):
        sample = layer(
            "",
            (1, 1, 1, 1, 300),
            (1, 1, 1, 1, 3),
            padding=(0, 0, padding),
            dilation=(1, 1, 200),
            stride=(1, 1, 2),
            dtypes=_HALVES,
            profile=profile,
            **_T,
        )
        assert ("padding" in _warned(sample)) == expected


def test_atlas_inference_is_warned_of_what_its_page_excludes_and_no_other_product() -> None:
    volume, mixed = (1, 2, 3, 3, 3), (FLOAT16, FLOAT, FLOAT16, FLOAT16)
    calls: tuple[tuple[str, Sample], ...] = (
        ("bias", layer("", (1, 2, 5), (3, 2, 2), dtypes=(FLOAT16, FLOAT16, BF16, FLOAT16))),
        ("cube_math_type", layer("", (1, 2, 5), (3, 2, 2), dtypes=_HALVES, cube_math_type=3)),
        ("transposed", layer("", volume, (2, 3, 2, 2, 2), dtypes=_HALVES, **_T)),
        ("weight", layer("", volume, (3, 2, 2, 2, 2), dtypes=mixed, cube_math_type=1)),
        ("output", layer("", volume, (3, 2, 2, 2, 2), dtypes=(*_HALVES[:3], FLOAT))),
    )  # fmt: skip
    for parameter, sample in calls:
        assert _warned(replace(sample, profile="ascend310p")) == [parameter]
        assert _warned(replace(sample, profile="ascend910")) == ["profile"]


def test_a_size_that_no_output_can_have_is_said_so() -> None:
    sample = layer("", (1, 2, 1, 1), (2, 3, 1, 1), padding=(0, 2), dtypes=_HALVES, **_T)
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(_shaped(sample, output=(1, 3, 1, 1)))
    assert "no shape, because the other arguments give sizes [1, 3, 1, -3]" in str(refusal.value)


def test_a_row_of_another_length_is_counted_in_words() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(layer("", (1, 2, 5), (3, 2, 2)).but("", stride=(1, 1)))
    assert (refusal.value.given, refusal.value.allowed) == ("2 values [1, 1]", "1 value")
