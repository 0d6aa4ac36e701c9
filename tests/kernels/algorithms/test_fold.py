"""The fold against sums in its own order, byte by byte, and against the float64 oracle."""

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kernels.execution import execute, plan_of
from kernels.oracles.expectation import assert_meets
from kernels.oracles.im2col_backward import expected
from kernels.samples.im2col_backward import image
from kernels.samples.sample import Sample
from opserve_kernels.algorithms.fold import plan as fold_plan
from opserve_kernels.tensor import DataType

Floats = NDArray[np.float32]

_SAMPLES = {
    "3x3": image("3x3", (2, 3, 9, 20), (3, 3), padding=(1, 1)),
    "one pixel": image("one pixel", (2, 1, 1), (1, 1)),
    "one pixel under many blocks": image("many", (1, 1, 1), (2, 3), padding=(3, 4)),
    "stride 2": image("stride 2", (2, 2, 17, 19), (3, 3), padding=(1, 1), stride=(2, 2)),
    "stride 2, no overlap": image("2x2", (2, 2, 16, 18), (2, 2), stride=(2, 2)),
    "stride 3, no overlap": image("3x3 by 3", (1, 2, 9, 12), (3, 3), stride=(3, 3)),
    "stride 4, no overlap": image("4x4", (2, 2, 12, 20), (4, 4), stride=(4, 4)),
    "stride 16, no overlap": image("16x16", (1, 3, 32, 48), (16, 16), stride=(16, 16)),
    "no overlap across only": image("16x8", (1, 3, 32, 24), (16, 8), stride=(16, 8)),
    "no overlap, a rest": image("rest", (2, 17, 19), (4, 4), stride=(4, 4)),
    "no overlap, padding": image("padded", (2, 14, 14), (4, 4), stride=(4, 4), padding=(1, 1)),
    "stride 4": image("stride 4", (2, 30, 29), (7, 7), padding=(3, 3), stride=(4, 4)),
    "stride 8": image("stride 8", (2, 20, 40), (3, 5), padding=(1, 2), stride=(8, 8)),
    "stride beyond the image": image("beyond", (2, 4, 3), (2, 2), padding=(9, 9), stride=(7, 7)),
    "dilated": image("dilated", (2, 14, 15), (3, 3), padding=(2, 2), dilation=(2, 2)),
    "dilated and strided": image(
        "dilated, strided", (2, 25, 26), (3, 4), padding=(4, 5), dilation=(3, 2), stride=(2, 4)
    ),
    "unlike": image("unlike", (2, 11, 23), (2, 5), padding=(0, 3), dilation=(4, 1), stride=(3, 2)),
}
_CAST = {
    "halves": (DataType.FLOAT16, DataType.FLOAT16),
    "bfloats": (DataType.BF16, DataType.BF16),
    "halves to float": (DataType.FLOAT16, DataType.FLOAT),
    "float to bfloats": (DataType.FLOAT, DataType.BF16),
}
every_sample = pytest.mark.parametrize("name", list(_SAMPLES))


def _in_order(sample: Sample, columns: Floats) -> Floats:
    """Sums in float32, positions ascending: the definition, pixel after pixel of a tap."""
    scalars: dict[str, Any] = dict(sample.scalars)
    (height, width), (rows, wide) = scalars["input_size"], scalars["kernel_size"]
    down, across = scalars["stride"]
    high = (height + 2 * scalars["padding"][0] - scalars["dilation"][0] * (rows - 1) - 1) // down
    planes = columns.reshape(-1, rows, wide, high + 1, columns.shape[-1] // (high + 1))
    out = np.zeros((planes.shape[0], height, width), dtype=np.float32)
    for i in range(planes.shape[3]):
        for j in range(planes.shape[4]):
            for a in range(rows):
                for b in range(wide):
                    h = i * down + a * scalars["dilation"][0] - scalars["padding"][0]
                    w = j * across + b * scalars["dilation"][1] - scalars["padding"][1]
                    if 0 <= h < height and 0 <= w < width:
                        out[:, h, w] += planes[:, a, b, i, j]
    return out.reshape(sample.outputs["out"].shape)


def _folded(sample: Sample, *, units: int | None = None) -> tuple[Floats, Floats]:
    """Columns and image."""
    buffers = sample.buffers()
    execute(sample, buffers, units=units)
    return (
        sample.inputs["grad_output"].view(buffers["grad_output"]),
        sample.outputs["out"].view(buffers["out"]),
    )


@every_sample
def test_sums_are_taken_in_the_order_that_is_promised(name: str) -> None:
    columns, out = _folded(_SAMPLES[name])

    assert out.tobytes() == _in_order(_SAMPLES[name], columns).tobytes()


@every_sample
@pytest.mark.parametrize(("elements", "values"), [(1, 1), (30, 1 << 20), (100, 70), (1 << 14, 1)])
def test_blocks_and_parts_of_any_size_compute_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, name: str, elements: int, values: int
) -> None:
    _, whole = _folded(_SAMPLES[name])

    monkeypatch.setattr(fold_plan, "_BLOCK_ELEMENTS", elements)
    monkeypatch.setattr(fold_plan, "_UNIT_VALUES", 1)
    monkeypatch.setattr(fold_plan, "_PART_VALUES", values)
    _, cut = _folded(_SAMPLES[name], units=1)

    assert cut.tobytes() == whole.tobytes()


@pytest.mark.parametrize("kernel", [(1000, 1000), (1, 1_000_000)])
def test_a_unit_of_a_million_taps_is_bounded(kernel: tuple[int, int]) -> None:
    size = (kernel[0] + 3, kernel[1] + 3)

    plan = plan_of(image("many taps", (1, 1, *size), kernel))

    taps_of_all_rows = size[0] * prod(kernel)
    assert taps_of_all_rows / plan.units < 500_000


def test_a_unit_of_many_planes_is_bounded() -> None:
    plan = plan_of(image("many planes", (8, 512, 20, 20), (3, 3), padding=(1, 1)))

    assert 8 * 512 * 20**2 * 3**2 / plan.units < 500_000


@pytest.mark.parametrize("dtypes", list(_CAST))
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("elements", [40, 1 << 14])
@pytest.mark.parametrize(
    "steps",
    [
        {"kernel_size": (3, 3), "padding": (1, 1)},
        {"kernel_size": (3, 3), "padding": (1, 1), "stride": (2, 2)},
        {"kernel_size": (4, 4), "stride": (4, 4)},
        {"kernel_size": (3, 3), "stride": (3, 3)},
    ],
    ids=["3x3", "stride 2", "4x4 by 4", "3x3 by 3"],
)
def test_other_dtypes_and_layouts_meet_the_oracle(
    monkeypatch: pytest.MonkeyPatch,
    steps: dict[str, Any],
    elements: int,
    channels_last: bool,
    dtypes: str,
) -> None:
    monkeypatch.setattr(fold_plan, "_BLOCK_ELEMENTS", elements)
    changes = dict(steps)
    layout = {"out": {"strides": (12 * 15 * 2, 1, 15 * 2, 2)}} if channels_last else {}
    sample = image(
        "cast",
        (2, 2, 12, 15),
        changes.pop("kernel_size"),
        dtypes=_CAST[dtypes],
        **changes,
        layout=layout,
    )
    buffers = sample.buffers()
    expectation = expected(sample, buffers)["out"]

    execute(sample, buffers)

    assert_meets(sample.outputs["out"].view(buffers["out"]), expectation)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", ["stride 2", "stride 4", "no overlap, a rest", "dilated"])
def test_values_that_are_not_finite_reach_their_pixels_only(name: str, special: float) -> None:
    sample = _SAMPLES[name]
    buffers = sample.buffers()
    columns = sample.inputs["grad_output"].view(buffers["grad_output"])
    columns[..., ::5] = special
    columns[..., 1::5] = -0.0
    expectation = expected(sample, buffers)["out"]

    execute(sample, buffers)

    assert_meets(sample.outputs["out"].view(buffers["out"]), expectation)


def _pairs(least: int, most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(*[st.integers(least, most)] * 2)


@st.composite
def _any_sample(draw: st.DrawFn) -> Sample:
    size, kernel = draw(_pairs(1, 20)), draw(_pairs(1, 5))
    scalars = {
        "padding": draw(_pairs(0, 6)),
        "stride": draw(st.one_of(st.just(kernel), _pairs(1, 9))),
        "dilation": draw(_pairs(1, 3)),
    }
    places = zip(size, scalars["padding"], kernel, scalars["dilation"], strict=True)
    free = [length + 2 * pad - far * (taps - 1) for length, pad, taps, far in places]
    assume(min(free) > 0 and prod(free) < 900)
    return image(
        "any", (draw(st.integers(1, 2)), draw(st.integers(1, 3)), *size), kernel, **scalars
    )


@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(
    sample=_any_sample(),
    elements=st.sampled_from([20, 1 << 14]),
    values=st.sampled_from([1, 200, 1 << 20]),
)
def test_any_fold_is_the_sum_in_order(sample: Sample, elements: int, values: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fold_plan, "_BLOCK_ELEMENTS", elements)
        patch.setattr(fold_plan, "_PART_VALUES", values)
        columns, out = _folded(sample)

    assert out.tobytes() == _in_order(sample, columns).tobytes()
