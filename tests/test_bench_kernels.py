"""The kernel benchmark's own logic: shapes, calls, means, goals and what it writes; no timing."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from math import prod
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.kernels import goals, growth, measuring, peak, regret, report, subject
from benchmarks.kernels.arrays import convolution_arrays, fold_columns, relative_error, unfold_image
from benchmarks.kernels.draw import COUNT, random_shapes
from benchmarks.kernels.goals import Goal, goals_of, write_goals
from benchmarks.kernels.lines import Line, Part, Suite
from benchmarks.kernels.measuring import by_turns, faster, geomean, ratio
from benchmarks.kernels.regret import Regret
from benchmarks.kernels.report import (
    Setting,
    shares_of_peak,
    show_goals,
    show_lines,
    write_lines,
)
from benchmarks.kernels.shapes import ConvolutionShape, FoldShape, convolution
from benchmarks.kernels.suites import CONVOLUTIONS, FILTERS, FOLDS, HALVES, THREADED
from benchmarks.machine import Family
from benchmarks.measure import Figure
from kernels.oracles.convolution_backward import Geometry, Gradients, gradients, magnitude
from kernels.oracles.expectation import Doubles
from opserve_kernels.gradients import Product
from opserve_kernels.operator import PlanOptions
from opserve_kernels.tensor import DataType

SETTING = Setting(machine="a machine", family=Family.ZEN_4, versions="some", peak=100e9, rounds=3)
ALL = (True, True, True)
DTYPES = (DataType.FLOAT, DataType.FLOAT16, DataType.BF16)


def a_line(
    suite: Suite = Suite.CONVOLUTION,
    *,
    over: float = 2.0,
    better: float = 1.5,
    algorithm: str = "",
    error: float = 1e-7,
) -> Line:
    values = {Part.ALL: over, Part.ALL_BEST: better, Part.OF_LOOPS: 0.95}
    return Line(
        suite=suite,
        shape="a shape",
        text="b1",
        algorithm=algorithm,
        work=4e9,
        ours_s=0.1,
        theirs_s=0.2,
        ratios={part: Figure(value=value, low=1, high=9, n=3) for part, value in values.items()},
        error=error,
        their_error=1e-6,
    )


def goals_on(family: Family, *lines: Line, regrets: Sequence[Regret] = ()) -> list[Goal]:
    return goals_of(lines, regrets, family)


def goal_named(found: list[Goal], *words: str) -> Goal:
    (goal,) = [goal for goal in found if all(word in goal.goal for word in words)]
    return goal


def test_text_of_a_shape_has_every_size_by_axis() -> None:
    shape = convolution("x", "b2 c6 o4 i9x7 k3x1 s2 p1x0 d1x2 e1x0 g2 t")
    assert shape.kernel == (3, 1)
    assert shape.stride == (2, 2)
    assert shape.dilation == (1, 2)
    assert shape.weight_shape == (6, 2, 3, 1)
    assert shape.output_size == ((9 - 1) * 2 - 2 + 2 + 1 + 1, (7 - 1) * 2 + 1)


def test_output_size_of_a_convolution_counts_positions_of_its_dilated_kernel() -> None:
    shape = convolution("x", "b1 c1 o1 i10 k3 s2 p1 d2")
    positions = range(0, 12 - 4, 2)
    assert shape.output_size == (len(positions),)


@pytest.mark.parametrize("shape", [*CONVOLUTIONS, *random_shapes()], ids=attrgetter("name"))
def test_a_shape_equals_its_text(shape: ConvolutionShape) -> None:
    assert convolution(shape.name, shape.text) == shape


def test_operations_count_a_product_for_each_tap_of_each_position_and_pair_of_channels() -> None:
    dense = convolution("x", "b4 c64 o32 i56x56 k3 p1")
    assert dense.operations == 2 * 4 * 64 * 32 * 56 * 56 * 9
    assert convolution("x", "b4 c64 o32 i56x56 k3 p1 g4").operations * 4 == dense.operations
    transposed = convolution("x", "b1 c8 o4 i5x5 k2 s2 t")
    assert transposed.operations == 2 * 8 * 4 * 25 * 4


def test_suites_have_as_many_shapes_as_documented() -> None:
    assert [len(suite) for suite in (CONVOLUTIONS, FOLDS, HALVES, FILTERS, THREADED)] == [
        33,
        8,
        8,
        6,
        12,
    ]
    assert COUNT >= 40
    names = [shape.name for shape in (*CONVOLUTIONS, *random_shapes())]
    names += [shape.name for shape in FOLDS]
    assert len(set(names)) == len(names)


def test_random_shapes_are_the_same_for_the_same_seed_and_no_other() -> None:
    assert random_shapes(5) == random_shapes(5)
    assert random_shapes(5) != random_shapes(6)


def test_random_shapes_are_of_all_kinds() -> None:
    shapes = random_shapes()
    assert {shape.rank for shape in shapes} == {1, 2, 3}
    kinds: tuple[Callable[[ConvolutionShape], bool], ...] = (
        lambda shape: shape.transposed,
        lambda shape: any(shape.output_padding),
        lambda shape: 1 < shape.groups < shape.in_channels,
        lambda shape: 1 < shape.groups == shape.in_channels,
        lambda shape: max(shape.stride) > 1,
        lambda shape: max(shape.dilation) > 1,
        lambda shape: shape.in_channels % 8 != 0 and shape.out_channels % 8 != 0,
        lambda shape: len(set(shape.kernel)) > 1,
    )
    assert [sum(map(kind, shapes)) > 0 for kind in kinds] == [True] * len(kinds)


@pytest.mark.parametrize("seed", range(4))
def test_random_shapes_cost_little(seed: int) -> None:
    for shape in random_shapes(seed):
        assert shape.operations <= 3 * 10**8
        tensors = (shape.input_shape, shape.output_shape, shape.weight_shape)
        assert max(map(prod, tensors)) <= 1 << 21


@pytest.mark.parametrize("seed", range(4))
def test_the_profile_accepts_every_random_shape(seed: int) -> None:
    for shape in random_shapes(seed):
        arguments = subject.gradients_arguments(shape, DataType.FLOAT, ALL)
        assert subject.plan_of("convolution_backward", "ascend910b", arguments)[0].units > 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", CONVOLUTIONS, ids=attrgetter("name"))
def test_the_profile_accepts_every_shape_of_networks(
    shape: ConvolutionShape, dtype: DataType
) -> None:
    arguments = subject.gradients_arguments(shape, dtype, ALL)
    plan, outputs = subject.plan_of("convolution_backward", "ascend910b", arguments)
    assert plan.units > 0
    assert [output.shape for output in outputs.values()] == [
        shape.input_shape,
        shape.weight_shape,
        (shape.out_channels,),
    ]


def oracle(shape: ConvolutionShape) -> tuple[Gradients, Gradients]:
    """Exact gradients, and the same sums over magnitudes."""
    arrays = convolution_arrays(shape, DataType.FLOAT)
    grad_output, image, weight = (
        arrays[name].astype(np.float64) for name in ("grad_output", "input", "weight")
    )
    geometry = Geometry(
        stride=shape.stride,
        padding=shape.padding,
        dilation=shape.dilation,
        transposed=shape.transposed,
        groups=shape.groups,
    )
    operands = (grad_output, image, weight, geometry)
    return gradients(*operands), magnitude(*operands)


def bound(shape: ConvolutionShape, size: Doubles, exact: Doubles) -> float:
    """Of sums in float32 in any order; a term rounds once, and so does each partial sum."""
    terms = shape.operations // 2 // exact.size + 1
    return terms * 2.0**-24 * 2 * float(size.max() / np.abs(exact).max())


small_shapes = pytest.mark.parametrize(
    "text",
    [
        "b2 c4 o6 i5x4 k3x2 s2x1 p1x0",
        "b2 c4 o6 i5x4 k3x2 s2x1 p1x0 d1x2",
        "b2 c4 o6 i5x4 k3x2 s2x1 p1x0 t",
    ],
)


@small_shapes
def test_a_call_of_ours_computes_the_gradients_of_its_shape(text: str) -> None:
    shape = convolution("small", text)
    arrays = convolution_arrays(shape, DataType.FLOAT)
    found = subject.gradients_call(shape, arrays, DataType.FLOAT, ALL).arrays()
    exact, size = oracle(shape)
    for name in ("grad_input", "grad_weight", "grad_bias"):
        true: Doubles = getattr(exact, name)
        assert relative_error(found[name], true) <= bound(shape, getattr(size, name), true)


@small_shapes
def test_filter_gradient_of_ours_is_the_weight_gradient_of_its_shape(text: str) -> None:
    shape = convolution("small", text)
    found = subject.filter_call(shape, convolution_arrays(shape, DataType.FLOAT)).arrays()
    exact, size = oracle(shape)
    true = subject.filter_of(shape, exact.grad_weight)
    assert found["dw_data"].shape == true.shape
    assert relative_error(found["dw_data"], true) <= bound(shape, size.grad_weight, true)


def test_a_fold_of_ours_adds_the_columns_of_its_shape() -> None:
    shape = FoldShape(
        name="f", batch=1, channels=2, size=(5, 4), kernel=2, stride=2, padding=1, dilation=2
    )
    columns = fold_columns(shape)
    high, wide = 3, 2
    padded = np.zeros((2, 5 + 2, 4 + 2))
    by_tap = columns.astype(np.float64).reshape(2, 2, 2, high, wide)
    for down, right, y, x in np.ndindex(2, 2, high, wide):
        padded[:, y * 2 + down * 2, x * 2 + right * 2] += by_tap[:, down, right, y, x]
    found = subject.fold_call(shape, columns).arrays()["out"][0]
    assert np.abs(found - padded[:, 1:-1, 1:-1]).max() <= 4 * 2.0**-24 * 4 * np.abs(columns).max()


def test_an_unfold_of_ours_copies_the_pixels_of_its_shape() -> None:
    shape = FoldShape(
        name="f", batch=1, channels=2, size=(5, 4), kernel=2, stride=2, padding=1, dilation=2
    )
    image = unfold_image(shape)
    padded = np.pad(image[0], ((0, 0), (1, 1), (1, 1)))
    columns = np.zeros((2, 2, 2, 3, 2), np.float32)
    for down, right, y, x in np.ndindex(2, 2, 3, 2):
        columns[:, down, right, y, x] = padded[:, y * 2 + down * 2, x * 2 + right * 2]
    found = subject.unfold_call(shape, image).arrays()["out"]
    np.testing.assert_array_equal(found, columns.reshape(1, 8, 6))


def test_results_of_a_call_are_new_with_every_run() -> None:
    shape = convolution("small", "b1 c2 o2 i4 k3")
    call = subject.gradients_call(shape, convolution_arrays(shape, DataType.FLOAT), DTYPES[0], ALL)
    first, second = call(), call()
    assert not np.shares_memory(first["grad_input"], second["grad_input"])


def test_arrays_of_a_shape_are_the_same_for_both_sides() -> None:
    shape = CONVOLUTIONS[-4]
    first, second = (convolution_arrays(shape, DataType.BF16) for _ in range(2))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert not np.array_equal(first["input"].ravel()[:9], first["weight"].ravel()[:9])


def test_loop_of_the_peak_adds_in_every_chain() -> None:
    twelve_chains_of_two = 24 * 2.0**-40
    assert peak._loop(1) == twelve_chains_of_two


def test_loops_at_once_are_less_than_the_threads_where_cores_are_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def seconds_of(_pool: object, count: int) -> float:
        return {1: 2.0, 2: 2.5}[count]

    monkeypatch.setattr(peak, "_seconds_of", seconds_of)
    assert peak.loops_at_once(2) == pytest.approx(1.6)


def test_regret_is_the_time_of_the_chosen_algorithm_over_that_of_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = {"image: packed": 3.0, "image: flat": 2.0, "weight: dots": 5.0, "weight: outer": 1.0}

    def by_turns(calls: Mapping[str, object], _rounds: int) -> dict[str, list[float]]:
        return {way: [times[way]] for way in calls}

    monkeypatch.setattr(regret, "by_turns", by_turns)
    shape = convolution("few channels", "b2 c4 o4 i8x8 k3 p1")
    image, weight = regret.regrets([shape], 1)
    assert (image.best, weight.best) == ("image: flat", "weight: outer")
    for one in (image, weight):
        assert one.regret == times[one.chosen] / times[one.best]


@pytest.mark.parametrize("family", growth.FAMILIES, ids=lambda family: f"{family[0]} {family[1]}")
def test_shapes_of_growth_suit_their_algorithm_and_grow(family: growth.Family) -> None:
    shapes = growth.shapes_of(family)
    works = [shape.operations for shape in shapes]
    assert works == sorted(set(works))
    assert works[0] < 5e4
    assert works[-1] > 4e8
    name = f"{family.product}: {family.algorithm}"
    mask = (family.product is Product.IMAGE, family.product is Product.WEIGHT, False)
    for shape in (shapes[0], shapes[-1]):
        arguments = subject.gradients_arguments(shape, DataType.FLOAT, mask)
        options = replace(subject.FAST, algorithms=(name,))
        plan, _ = subject.plan_of("convolution_backward", "ascend910b", arguments, options)
        assert plan.algorithms == (name,)


def test_points_of_growth_are_written_as_the_picture_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "PATH", tmp_path / "points.csv")
    seconds = {"ours_s": 0.123456, "theirs_s": 2.0, "roof_s": 3.0, "model_s": 4.0}
    point = growth.Point(machine="a machine", name="image: flat", family="b1", work=1e4, **seconds)
    with growth.write_points([point]).open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["machine"], row["work"], row["ours_s"]) == ("a machine", "1e+04", "0.1235")


def test_rounds_take_turns_and_warming_up_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count()
    monkeypatch.setattr("time.thread_time", lambda: float(next(seconds)))
    called: list[str] = []
    calls = {name: partial(called.append, name) for name in ("ours", "theirs")}
    samples = by_turns(calls, 3)
    assert samples == {"ours": [1.0] * 3, "theirs": [1.0] * 3}
    assert called[-6:] == ["ours", "theirs"] * 3
    assert set(called[:-6]) == {"ours", "theirs"}


def test_a_short_call_is_repeated_within_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    monkeypatch.setattr("time.thread_time", lambda: len(called) * 0.001)
    samples = by_turns({"ours": lambda: called.append(0)}, 2)
    assert samples["ours"] == pytest.approx([0.001] * 2)
    warming_up, within_a_round = 2, 4
    assert len(called) == warming_up + 2 * within_a_round


def test_ratio_sets_each_round_against_its_own() -> None:
    found = ratio(
        {"theirs": [2.0, 40.0, 9.0], "ours": [1.0, 10.0, 3.0]}, over="theirs", under="ours"
    )
    assert (found.value, found.low, found.high, found.n) == (3.0, 2.0, 4.0, 3)


def test_better_layout_is_the_one_that_takes_less() -> None:
    samples = {"NCHW": [3.0, 3.0, 9.0], "last": [4.0, 2.0, 2.0]}
    assert faster(samples, "NCHW", "last") == "last"
    assert faster({"NCHW": [3.0]}, "NCHW", "last") == "NCHW"


def test_geomean_of_a_ratio_and_its_inverse_is_one() -> None:
    assert geomean([4.0, 0.25]) == pytest.approx(1.0)
    assert geomean([]) is None


def test_the_least_of_all_rounds_counts_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([5.0, 9.0, 4.0, 6.0])

    def seconds_of(call: Callable[[], object]) -> float:
        call()
        return next(seconds)

    def repeats(call: Callable[[], object]) -> int:
        call()
        return 1

    monkeypatch.setattr(measuring, "_repeats", repeats)
    monkeypatch.setattr(measuring, "_GAP_S", 0)
    monkeypatch.setattr(measuring, "seconds_of", seconds_of)
    samples = measuring.least_by_turns({"ours": lambda: None, "theirs": lambda: None}, 2)
    assert ratio(samples, over="theirs", under="ours").value == 6 / 4


def test_a_call_on_two_threads_computes_the_same() -> None:
    shape = convolution("x", "b4 c32 o32 i28x28 k3 p1")
    arrays = convolution_arrays(shape, DataType.FLOAT)
    one, two = (
        subject.gradients_call(shape, arrays, DataType.FLOAT, ALL, PlanOptions(threads=threads))
        for threads in (1, 2)
    )
    assert [len(call.plan.shares) for call in (one, two)] == [1, 2]
    for name, array in one.arrays().items():
        np.testing.assert_allclose(two.arrays()[name], array, rtol=1e-4, atol=1e-4)


def test_goals_report_means_and_the_slowest_shape() -> None:
    lines = [a_line(over=4.0, better=3.0), a_line(over=1.0, better=0.75)]
    found = goals_on(
        Family.ZEN_4, *lines, a_line(Suite.RANDOM, over=0.8), a_line(Suite.RANDOM, over=9.0)
    )
    assert goal_named(found, "geomean over PyTorch NCHW").value == pytest.approx(2.0)
    assert goal_named(found, "the better of").value == pytest.approx(1.5)
    slowest = goal_named(found, "fp32", "slowest")
    assert (slowest.value, slowest.met) == (1.0, True)
    assert goal_named(found, "random", "geomean").met
    assert not goal_named(found, "random", "slowest").met


def test_an_unmeasured_goal_is_not_met_and_states_why() -> None:
    found = goals_on(Family.OTHER, a_line())
    assert all(goal.reason and not goal.met for goal in found if goal.value is None)
    assert goal_named(found, "2 threads").value is None
    assert goal_named(found, "unfold").value is None


def test_targets_are_those_of_the_processor_and_the_lower_one_of_another() -> None:
    def targets(*words: str) -> list[float]:
        return [goal_named(goals_on(family), *words).target for family in Family]

    assert targets("PyTorch NCHW") == [1.70, 1.75, 1.70]
    assert targets("FLOAT16") == [20.0, 11.0, 11.0]


def test_fast_has_a_goal_over_the_better_layout() -> None:
    found = goals_on(Family.ZEN_4, a_line(Suite.FAST, over=3.0, better=1.7))
    better = goal_named(found, "fast", "better layout")
    assert better.value == pytest.approx(1.7)
    assert not better.met


def test_threads_are_set_against_loops_of_multiply_adds() -> None:
    found = goal_named(goals_on(Family.ZEN_4, a_line(Suite.THREADS)), "2 threads")
    assert found.value == pytest.approx(0.95)
    assert found.met


@pytest.mark.parametrize(("times", "met"), [((1.0, 1.01), [True, True]), ((1.2, 1.0), [False] * 2)])
def test_choices_have_goals_of_mean_and_worst(times: Sequence[float], met: list[bool]) -> None:
    regrets = [Regret(shape="a", chosen="b", best="c", regret=time) for time in times]
    found = goals_on(Family.INTEL, regrets=regrets)
    goals_of_choices = [goal_named(found, "chosen", word) for word in ("geomean", "worst")]
    assert [goal.met for goal in goals_of_choices] == met
    assert goals_of_choices[1].value == max(times)


def test_rows_with_winograd_have_a_separate_goal() -> None:
    lines = [a_line(over=1.5), *(a_line(Suite.FAST, over=over) for over in (3.0, 0.75))]
    fast = goal_named(goals_on(Family.INTEL, *lines), "fast", "NCHW")
    assert fast.value == pytest.approx(1.5)
    assert not fast.met
    assert goal_named(goals_on(Family.INTEL, *lines), "PyTorch NCHW").value == 1.5


def test_only_rows_of_accuracy_fast_are_planned_with_winograd() -> None:
    shape = convolution("x", "b2 c64 o64 i28x28 k3 p1")
    call = ("convolution_backward", "ascend910b")
    arguments = subject.gradients_arguments(shape, DataType.FLOAT, ALL)
    plans = [subject.plan_of(*call, arguments, how)[0] for how in (subject.DIRECT, subject.FAST)]
    assert ["winograd" in " ".join(plan.algorithms) for plan in plans] == [False, True]


def test_errors_are_reported_by_kind_of_algorithm_and_of_fp32_alone() -> None:
    found = goals_on(
        Family.INTEL,
        a_line(error=9e-7),
        a_line(Suite.FOLD, error=2e-6),
        a_line(Suite.BFLOAT16, error=1e-2),
        a_line(algorithm="winograd", error=1e-5),
    )
    direct, winograd = goal_named(found, "error", "direct"), goal_named(found, "error", "Winograd")
    assert (direct.value, direct.met) == (2e-6, False)
    assert (winograd.value, winograd.met) == (1e-5, True)


def test_goals_are_written_with_their_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(goals, "OUT", tmp_path / "out")
    rows = json.loads(write_goals(goals_on(Family.INTEL, a_line())).read_text())
    assert all({"goal", "value", "target", "better", "met"} <= set(row) for row in rows)
    assert not any(row["met"] for row in rows if row["value"] is None)


def test_every_line_is_written_with_its_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "OUT", tmp_path / "out")
    lines = [a_line(algorithm="packed"), a_line(Suite.FOLD)]
    with write_lines(lines, SETTING).open(newline="") as file:
        first, fold = csv.DictReader(file)
    assert (first["all"], first["all_low"], first["all_high"]) == ("2.0", "1", "9")
    assert float(first["share_of_peak"]) == pytest.approx(0.4)
    assert (first["grad_input"], fold["share_of_peak"]) == ("", "")


def test_share_of_the_peak_is_work_by_time_by_peak() -> None:
    assert shares_of_peak(a_line(), SETTING) == pytest.approx((0.4, 0.2))
    assert shares_of_peak(a_line(Suite.THREADS), SETTING) == pytest.approx((0.2, 0.1))


def test_tables_name_shapes_means_and_goals(capsys: pytest.CaptureFixture[str]) -> None:
    show_lines([a_line(over=4.0), a_line(over=1.0)], SETTING)
    show_goals(goals_on(Family.INTEL, a_line()))
    shown = capsys.readouterr().out
    assert "a machine" in shown
    assert "geometric mean" in shown
    assert "2.00" in shown
    assert "2 threads" in shown
