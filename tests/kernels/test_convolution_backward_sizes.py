"""The size of grad_output of a transposed convolution, and the refusal of any other."""

from dataclasses import replace
from typing import Any

import pytest

from kernels.execution import plan_of
from kernels.samples.convolution_backward import convolution
from kernels.samples.convolution_backward_errors import tensor_of
from kernels.samples.sample import Sample
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.status import Status
from opserve_kernels.tensor import DataType

PROFILES = ("ascend910b", "ascend910", "ascend310p", "reference")
WITH_3D = ("ascend910b", "reference")
_HALF = (DataType.FLOAT16,) * 3
_CASES = [
    (profile, rank, axis)
    for profile in PROFILES
    for rank in (1, 2, 3)
    for axis in range(rank)
    if rank < 3 or profile in WITH_3D
]


def transposed(rank: int, axis: int, *, output_padding: int, **changes: Any) -> Sample:
    """A transposed convolution of 3 positions with stride 3, padding 1, dilation 2 and 2 taps."""
    extra = tuple(output_padding * int(place == axis) for place in range(rank))
    geometry = {"stride": (3,) * rank, "padding": (1,) * rank, "dilation": (2,) * rank, **changes}
    shapes = (2, 3, *(3,) * rank), (3, 2, *(2,) * rank)
    return convolution(
        "transposed", *shapes, transposed=True, output_padding=extra, dtypes=_HALF, **geometry
    )


def resized(sample: Sample, axis: int, size: int) -> Sample:
    """The same call with a grad_output of another size in one spatial dimension."""
    given = tensor_of(sample, "grad_output")
    shape = (*given.shape[: 2 + axis], size, *given.shape[3 + axis :])
    return sample.but("resized", grad_output=replace(given, shape=shape))


def refusal_of(sample: Sample, profile: str) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(replace(sample, profile=profile))
    return refusal.value


@pytest.mark.parametrize("output_padding", [0, 1, 2])
@pytest.mark.parametrize(("profile", "rank", "axis"), _CASES)
def test_grad_output_has_exactly_the_size_of_the_transposed_convolution(
    profile: str, rank: int, axis: int, output_padding: int
) -> None:
    sample = transposed(rank, axis, output_padding=output_padding)
    exact = (3 - 1) * 3 - 2 + 2 * (2 - 1) + 1 + output_padding

    assert plan_of(replace(resized(sample, axis, exact), profile=profile)).units > 0
    for size in (exact - 3, exact - 1, exact + 1, exact + 3):
        refusal = refusal_of(resized(sample, axis, size), profile)
        assert refusal.status == Status.ACLNN_ERR_PARAM_INVALID
        assert refusal.parameter == "grad_output"
        sizes = ", ".join(str(exact if place == axis else 7) for place in range(rank))
        assert refusal.allowed == f"spatial sizes [{sizes}], which the other arguments give"


@pytest.mark.parametrize("profile", WITH_3D)
def test_size_that_the_source_would_take_with_output_padding_is_refused(profile: str) -> None:
    sample = transposed(
        3, 2, output_padding=1, stride=(2,) * 3, padding=(0,) * 3, dilation=(1,) * 3
    )
    wide = tensor_of(sample, "weight", shape=(3, 2, 1, 1, 1))
    sample = sample.but("kernel of 1", weight=wide, grad_weight=wide)

    for size, accepted in ((5, False), (6, True), (7, False)):
        sized = sample
        for axis, length in enumerate((5, 5, size)):
            sized = resized(sized, axis, length)
        if accepted:
            assert plan_of(replace(sized, profile=profile)).units > 0
        else:
            assert refusal_of(sized, profile).parameter == "grad_output"


_FAR, _NEAR, _SMALL = 8 + 3, 8 + 1, 1
"""Sizes for an exact 8: refused by the source's formula, by the exact size only, by the kernel."""


@pytest.mark.parametrize(
    ("size", "message", "changes"),
    [
        (_SMALL, "grad_output", {"dilation": (2, 2, 4)}),
        (_FAR, "grad_output", {}),
        (_NEAR, "input", {}),
    ],
)
def test_3d_on_older_profiles_is_refused_between_the_sources_size_and_the_exact_one(
    size: int, message: str, changes: dict[str, Any]
) -> None:
    sample = resized(transposed(3, 2, output_padding=1), 2, size).but("changed", **changes)

    assert refusal_of(sample, "ascend910").parameter == message


@pytest.mark.parametrize(("size", "message"), [(_FAR, "grad_output"), (_NEAR, "grad_weight")])
def test_source_refuses_a_grouped_float_grad_weight_before_the_exact_size(
    size: int, message: str
) -> None:
    sample = resized(transposed(3, 2, output_padding=1), 2, size)
    grouped = sample.but(
        "groups",
        weight=tensor_of(sample, "weight", shape=(3, 2, 2, 2, 2)),
        input=tensor_of(sample, "input", shape=(2, 3, 3, 3, 3)),
        grad_weight=tensor_of(sample, "grad_weight", dtype=DataType.FLOAT),
        grad_output=tensor_of(sample, "grad_output", shape=(2, 6, 7, 7, size)),
        grad_bias=tensor_of(sample, "grad_bias", shape=(6,)),
        groups=3,
        bias_sizes=(6,),
    )

    assert refusal_of(grouped, "ascend910b").parameter == message


def test_grad_output_smaller_than_the_kernel_in_3d_is_refused_as_by_the_source() -> None:
    sample = resized(transposed(3, 2, output_padding=1), 2, _SMALL).but("d", dilation=(2, 2, 4))

    assert "the dilated kernel spans" in refusal_of(sample, "ascend910b").allowed
