"""The depthwise algorithm against the float64 oracle."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kernels.algorithms.depthwise_runs import (
    CASES,
    IMAGE,
    KIND,
    LONG,
    ORACLES,
    OUTPUT,
    WEIGHT,
    arrays_of,
    every_result,
    gradients_of,
    operands_of,
    planned_of,
    result_of,
)
from kernels.algorithms.direct_cases import Case
from kernels.oracles.expectation import assert_meets
from opserve_kernels.algorithms.depthwise import loops as depthwise
from opserve_kernels.algorithms.depthwise import plan as depthwise_plan
from opserve_kernels.algorithms.depthwise.plain import (
    compare,
    compare_skip_padding,
    weigh,
    weigh_skip_padding,
)
from opserve_kernels.algorithms.depthwise.plan import depthwise_stages, fits
from opserve_kernels.gradients import Diagonal
from opserve_kernels.workspace import Workspace


@every_result
@pytest.mark.parametrize("name", list(CASES))
def test_it_meets_the_oracle(name: str, wanted: int) -> None:
    arrays = arrays_of(name, CASES[name])

    result = result_of(CASES[name], arrays, wanted)

    assert_meets(result, ORACLES[wanted](CASES[name], arrays))


@every_result
@pytest.mark.parametrize(
    ("elements", "products"), [(60, 1 << 25), (200, 1 << 25), (200, 700), (1 << 14, 1)]
)
@pytest.mark.parametrize("name", list(LONG))
def test_images_that_are_cut_into_blocks_meet_it_too(
    monkeypatch: pytest.MonkeyPatch, name: str, elements: int, products: int, wanted: int
) -> None:
    monkeypatch.setattr(depthwise_plan, "_COPY_ELEMENTS", elements)
    monkeypatch.setattr(depthwise_plan, "_BLOCK_PRODUCTS", products)
    monkeypatch.setattr(depthwise_plan, "_MOST_IN_PLACE", 0)
    monkeypatch.setattr(depthwise_plan, "_UNIT_PRODUCTS", 1)
    arrays = arrays_of(name, LONG[name])

    whole = result_of(LONG[name], arrays, wanted)
    sliced = result_of(LONG[name], arrays, wanted, units=1)

    assert_meets(whole, ORACLES[wanted](LONG[name], arrays))
    assert sliced.tobytes() == whole.tobytes()


@every_result
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize(
    "name", ["3x3", "7x7", "stride 2", "dilated and strided", "multiplier", "3-D"]
)
def test_values_that_are_not_finite_reach_what_they_touch_only(
    name: str, special: float, wanted: int
) -> None:
    arrays = arrays_of(name, CASES[name])
    for array in arrays:
        array.flat[array.size // 2] = special
        array.flat[0] = -0.0

    result = result_of(CASES[name], arrays, wanted)

    assert_meets(result, ORACLES[wanted](CASES[name], arrays))


@every_result
@pytest.mark.parametrize("name", ["3x3", "stride 2", "unlike strides", "multiplier", "3-D"])
def test_plain_kernels_meet_the_oracle(
    monkeypatch: pytest.MonkeyPatch, name: str, wanted: int
) -> None:
    arrays = arrays_of(name, CASES[name])
    monkeypatch.setattr(depthwise_plan, "_IN_PLACE_KERNELS", ())
    monkeypatch.setattr(depthwise, "weigh", weigh)
    monkeypatch.setattr(depthwise, "compare", compare)

    result = result_of(CASES[name], arrays, wanted)

    assert_meets(result, ORACLES[wanted](CASES[name], arrays))


def _sizes(least: int, most: int) -> st.SearchStrategy[tuple[int, int, int]]:
    return st.tuples(*[st.integers(least, most)] * 3)


@st.composite
def _any_case(draw: st.DrawFn) -> Case:
    groups = draw(st.integers(1, 3))
    case = Case(
        batch=draw(st.integers(1, 4)),
        groups=groups,
        inputs=groups,
        outputs=groups * draw(st.integers(1, 4)),
        size=draw(_sizes(1, 12)),
        kernel=draw(_sizes(1, 4)),
        stride=draw(_sizes(1, 4)),
        padding=draw(_sizes(0, 5)),
        dilation=draw(_sizes(1, 3)),
        more=draw(_sizes(0, 1)),
    )
    assume(min(case.output_size) > 0 and prod(case.output_size) < 900)
    return case


@every_result
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(
    case=_any_case(),
    elements=st.sampled_from([50, 4096]),
    products=st.sampled_from([1, 2000, 1 << 25]),
)
def test_any_convolution_meets_the_oracle(
    wanted: int, case: Case, elements: int, products: int
) -> None:
    arrays = case.arrays(np.random.default_rng(7))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depthwise_plan, "_COPY_ELEMENTS", elements)
        patch.setattr(depthwise_plan, "_BLOCK_PRODUCTS", products)
        result = result_of(case, arrays, wanted)

    assert_meets(result, ORACLES[wanted](case, arrays))


@st.composite
def _usual_case(draw: st.DrawFn) -> Case:
    groups, taps, stride = (draw(st.sampled_from(some)) for some in ((1, 2), (3, 5), (1, 2)))
    padding, more = (
        (0, draw(st.integers(0, most)), draw(st.integers(0, most))) for most in (7, stride)
    )
    case = Case(
        batch=draw(st.integers(1, 3)),
        groups=groups,
        inputs=groups,
        outputs=groups,
        size=(1, draw(st.integers(1, 12)), draw(st.integers(1, 70))),
        kernel=(1, taps, taps),
        stride=(1, stride, stride),
        padding=padding,
        more=more,
    )
    assume(min(case.output_size) > 0)
    return case


@every_result
@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(
    case=_usual_case(),
    special=st.sampled_from([None, np.inf]),
    elements=st.sampled_from([50, 1 << 14]),
)
def test_usual_kernels_meet_the_oracle(
    wanted: int, case: Case, special: float | None, elements: int
) -> None:
    arrays = case.arrays(np.random.default_rng(8))
    if special is not None:
        for array in arrays:
            array.flat[array.size // 3] = special

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depthwise_plan, "_COPY_ELEMENTS", elements)
        result = result_of(case, arrays, wanted, units=1)

    assert_meets(result, ORACLES[wanted](case, arrays))


@every_result
def test_a_unit_of_a_kernel_of_thousands_of_taps_is_bounded(wanted: int) -> None:
    padding = (0, 127, 127)
    case = Case(inputs=1, outputs=1, size=(1, 300, 300), kernel=(1, 255, 255), padding=padding)
    arrays = arrays_of("many taps", case)

    stage = planned_of(gradients_of(case, operands_of(case, arrays), wanted)).stage

    assert 300**2 * 255**2 / (stage.units - 1) < 40_000_000


@every_result
def test_a_unit_of_many_groups_is_bounded(wanted: int) -> None:
    case = Case(batch=2, groups=256, inputs=256, outputs=256, size=(1, 32, 32))
    arrays = arrays_of("many groups", case)

    stage = planned_of(gradients_of(case, operands_of(case, arrays), wanted)).stage

    assert 2 * 256 * 32**2 * 3**2 / (stage.units - 1) < 2_000_000


def test_stages_of_a_call_have_separate_parts_of_the_workspace() -> None:
    case = CASES["stride 2"]
    arrays = arrays_of("stages", case)
    image, weight, output = operands_of(case, arrays)
    both = replace(
        gradients_of(case, (image, weight, output), IMAGE), image=image, grad_weight=weight
    )
    apart = [
        planned_of(gradients_of(case, (image, weight, output), wanted))
        for wanted in (IMAGE, WEIGHT)
    ]
    workspace = Workspace()
    workspace.reserve(1)
    before = workspace.size_bytes

    stages = depthwise_stages(KIND, both, workspace)

    assert [stage.units for stage in stages] == [planned.stage.units for planned in apart]
    assert workspace.size_bytes == before + sum(planned.workspace_size for planned in apart)


@every_result
def test_the_workspace_of_large_planes_is_as_small_as_a_block(wanted: int) -> None:
    case = Case(groups=2, inputs=2, outputs=2, size=(1, 500, 500))
    operands = operands_of(case, arrays_of("large", case))

    assert planned_of(gradients_of(case, operands, wanted)).workspace_size < 200_000


def test_other_calls_do_not_fit() -> None:
    case = CASES["3x3"]
    operands = operands_of(case, arrays_of("fits", case))
    gradients = gradients_of(case, operands, IMAGE)
    diagonal = Diagonal(groups=3, extend=1, input_channels=1, output_channels=1)
    fewer = replace(operands[OUTPUT], parts=(((2, 1),), operands[OUTPUT].parts[1]))

    assert fits(gradients)
    assert not fits(replace(gradients, diagonal=diagonal))
    assert not fits(replace(gradients, output=fewer))
    assert not fits(replace(gradients, convolution=replace(case.convolution, input_channels=2)))
    assert not fits(replace(gradients, convolution=replace(case.convolution, output_channels=5)))


@pytest.mark.parametrize("count", [1, 7, 8, 9, 17, 33, 64, 65, 200])
@pytest.mark.parametrize("taps", [1, 2, 3, 5, 9, 10, 25])
def test_generated_plain_and_careful_kernels_agree(taps: int, count: int) -> None:
    rng = np.random.default_rng(count * 100 + taps)
    memory = rng.integers(-3, 4, 2000).astype(np.float32)
    memory[memory == 0] = 0.0
    table = memory.view(np.int32)
    weights, offsets, source, target = 0, 50, 100, 1000
    table[offsets : offsets + taps] = rng.integers(-20, 300, taps)
    memory[target - 60 : target] = 1
    left = 800
    memory[left + count : left + count + 64] = 0
    copies = [memory.copy() for _ in range(3)]
    numbers = (taps, weights, offsets, source + 20, target, count)

    for kernel, own in zip((depthwise.weigh, weigh, weigh_skip_padding), copies, strict=True):
        kernel(own, own.view(np.int32), numbers)

    sums = [own[target : target + count] for own in copies]
    for own in sums[1:]:
        np.testing.assert_array_equal(own, sums[0])
    place = 1500
    totals = (taps, left, offsets, source + 20, place, count)
    copies = [memory.copy() for _ in range(3)]
    for kernel, own in zip((depthwise.compare, compare, compare_skip_padding), copies, strict=True):
        kernel(own, own.view(np.int32), totals)
    for own in copies[1:]:
        found, expected = own[place:][:taps], copies[0][place:][:taps]
        np.testing.assert_array_equal(found, expected)
