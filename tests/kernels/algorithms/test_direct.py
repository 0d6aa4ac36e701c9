"""The direct algorithms, each on its own, against the float64 oracle."""

from collections.abc import Callable
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kernels.algorithms.direct_cases import (
    Case,
    Floats,
    Run,
    expected_image,
    expected_output,
    expected_weight,
    image_run,
    output_run,
    weight_run,
)
from kernels.oracles.expectation import Expectation, assert_meets
from opserve_kernels.algorithms.direct.plan import DIRECT
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.gradients import Product

Arrays = tuple[Floats, Floats, Floats]
Runner = Callable[[Case, Arrays, Algorithm], Run]
Oracle = Callable[[Case, Arrays], Expectation]

_CASES = {
    "3x3": Case(),
    "one pixel": Case(size=(1, 1, 1)),
    "1x1": Case(kernel=(1, 1, 1), padding=(0, 0, 0), inputs=17, outputs=9),
    "1x1, strided": Case(kernel=(1, 1, 1), padding=(0, 0, 0), stride=(1, 2, 2)),
    "channels beside the vector": Case(inputs=33, outputs=19, size=(1, 5, 5)),
    "one channel": Case(inputs=1, outputs=1, size=(1, 20, 20)),
    "stride 2": Case(stride=(1, 2, 2), size=(1, 9, 8), batch=3),
    "stride beyond the kernel": Case(kernel=(1, 2, 2), stride=(1, 3, 3), size=(1, 11, 9)),
    "unlike strides": Case(kernel=(1, 4, 5), stride=(1, 3, 2), padding=(0, 2, 1), size=(1, 9, 10)),
    "dilated": Case(dilation=(1, 2, 3), padding=(0, 2, 3), size=(1, 9, 9)),
    "dilated and strided": Case(dilation=(1, 2, 3), stride=(1, 3, 2), padding=(0, 1, 4)),
    "padding beyond the kernel": Case(padding=(0, 4, 5), size=(1, 3, 4)),
    "padding of whole vectors": Case(dilation=(1, 1, 60), padding=(0, 1, 60), size=(1, 4, 5)),
    "more padding behind": Case(stride=(1, 2, 2), more=(0, 1, 1), size=(1, 6, 6)),
    "padding behind a single tap": Case(
        kernel=(1, 1, 1), padding=(0, 0, 0), stride=(1, 2, 2), more=(0, 2, 3), size=(1, 5, 4)
    ),
    "rows that no tap reaches": Case(kernel=(1, 2, 2), padding=(0, 0, 0), stride=(1, 2, 4)),
    "groups": Case(groups=4, inputs=8, outputs=12, batch=2),
    "whole panels": Case(groups=2, inputs=6, outputs=32, size=(1, 7, 7), batch=3),
    "depthwise": Case(groups=5, inputs=5, outputs=10),
    "1-D": Case(size=(1, 1, 300), kernel=(1, 1, 7), padding=(0, 0, 3), batch=2),
    "1-D, strided": Case(size=(1, 1, 90), kernel=(1, 1, 10), padding=(0, 0, 0), stride=(1, 1, 5)),
    "3-D": Case(size=(4, 5, 6), kernel=(3, 3, 3), padding=(1, 1, 1)),
    "3-D, strided": Case(
        size=(5, 4, 6), kernel=(2, 3, 3), padding=(1, 0, 1), stride=(2, 2, 1), batch=2
    ),
    "many tiles": Case(size=(1, 30, 31), inputs=4, outputs=4, batch=2),
    "many products": Case(inputs=40, outputs=40, size=(1, 6, 6), batch=2),
    "wide rows": Case(size=(1, 3, 700), inputs=2, outputs=3),
    "wide rows, strided": Case(
        size=(1, 3, 3000),
        kernel=(1, 2, 2),
        padding=(0, 0, 0),
        stride=(1, 2, 2),
        inputs=64,
        outputs=2,
    ),
    "parts of several entries": Case(
        size=(1, 7, 7), kernel=(1, 1, 1), padding=(0, 0, 0), inputs=600, outputs=9, batch=5
    ),
    "few summed channels": Case(
        size=(1, 32, 32), kernel=(1, 1, 1), padding=(0, 0, 0), inputs=24, outputs=40, batch=3
    ),
    "few channels, tap by tap": Case(
        size=(2, 4, 52), kernel=(1, 1, 1), padding=(0, 0, 0), groups=2, inputs=48, outputs=10
    ),
    "three taps of whole vectors": Case(
        size=(1, 1, 400), kernel=(1, 1, 3), padding=(0, 0, 1), inputs=16, outputs=24, batch=3
    ),
    "rows of padding": Case(
        inputs=256, outputs=9, size=(1, 24, 26), dilation=(1, 10, 1), padding=(0, 10, 1), batch=2
    ),
    "rows of padding, from the output": Case(
        inputs=9, outputs=256, size=(1, 24, 26), dilation=(1, 10, 1), padding=(0, 10, 1)
    ),
    "rows of padding in several blocks": Case(
        inputs=256, outputs=256, size=(1, 48, 10), dilation=(1, 8, 8), padding=(0, 8, 8)
    ),
    "no padding": Case(size=(3, 9, 40), kernel=(2, 3, 3), padding=(0, 0, 0), inputs=9, batch=2),
}
_PRODUCTS: dict[Product, tuple[Runner, Oracle]] = {
    Product.IMAGE: (image_run, expected_image),
    Product.OUTPUT: (output_run, expected_output),
    Product.WEIGHT: (weight_run, expected_weight),
}
every_algorithm = pytest.mark.parametrize(
    ("product", "algorithm"),
    [
        pytest.param(product, algorithm, id=f"{product}-{algorithm}")
        for product in _PRODUCTS
        for algorithm in DIRECT[product]
    ],
)
every_case = pytest.mark.parametrize("name", list(_CASES))


def _arrays(name: str, case: Case) -> Arrays:
    return case.arrays(np.random.default_rng(crc32(name.encode())))


@every_algorithm
@every_case
def test_it_meets_the_oracle(name: str, algorithm: Algorithm, product: Product) -> None:
    run, oracle = _PRODUCTS[product]
    arrays = _arrays(name, _CASES[name])

    result = run(_CASES[name], arrays, algorithm).result()

    assert_meets(result, oracle(_CASES[name], arrays))


@every_algorithm
@pytest.mark.parametrize("name", ["many tiles", "3-D, strided", "groups", "few summed channels"])
def test_slices_of_units_compute_the_same_bytes(
    name: str, algorithm: Algorithm, product: Product
) -> None:
    run, _ = _PRODUCTS[product]
    arrays = _arrays(name, _CASES[name])
    whole = run(_CASES[name], arrays, algorithm).result()

    sliced = run(_CASES[name], arrays, algorithm).result(units=1)

    assert sliced.tobytes() == whole.tobytes()


@every_algorithm
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize(
    "name",
    [
        "3x3",
        "dilated and strided",
        "3-D",
        "groups",
        "whole panels",
        "few channels, tap by tap",
        "three taps of whole vectors",
        "rows of padding",
    ],
)
def test_values_that_are_not_finite_reach_what_they_touch_only(
    name: str, special: float, algorithm: Algorithm, product: Product
) -> None:
    run, oracle = _PRODUCTS[product]
    arrays = _arrays(name, _CASES[name])
    for array in arrays:
        array.flat[array.size // 2] = special
        array.flat[0] = -0.0

    result = run(_CASES[name], arrays, algorithm).result()

    assert_meets(result, oracle(_CASES[name], arrays))


def _sizes(least: int, most: int) -> st.SearchStrategy[tuple[int, int, int]]:
    return st.tuples(*[st.integers(least, most)] * 3)


@st.composite
def _any_case(draw: st.DrawFn) -> Case:
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    case = Case(
        batch=draw(st.integers(1, 3)),
        groups=groups,
        inputs=groups * draw(st.integers(1, 9)),
        outputs=groups * draw(st.integers(1, 9)),
        size=draw(_sizes(1, 6)),
        kernel=draw(_sizes(1, 3)),
        stride=draw(_sizes(1, 3)),
        padding=draw(_sizes(0, 4)),
        dilation=draw(_sizes(1, 3)),
    )
    assume(min(case.output_size) > 0)
    return case


@every_algorithm
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(case=_any_case())
def test_any_convolution_meets_the_oracle(
    algorithm: Algorithm, product: Product, case: Case
) -> None:
    run, oracle = _PRODUCTS[product]
    arrays = case.arrays(np.random.default_rng(7))

    result = run(case, arrays, algorithm).result()

    assert_meets(result, oracle(case, arrays))
