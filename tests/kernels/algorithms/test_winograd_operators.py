"""Operators in other memory formats that Winograd's algorithm computes, within its bound."""

from collections.abc import Callable

import pytest

from kernels.execution import is_transformed, results
from kernels.oracles import conv2d_backprop_filter, conv2d_backprop_input, deconv_grad_filter
from kernels.oracles.expectation import Expectation, assert_meets
from kernels.samples import conv2d_backprop_filter as dw
from kernels.samples import conv2d_backprop_input as dx
from kernels.samples.deconv_grad_filter import deconvolution
from kernels.samples.sample import Sample
from opserve_kernels.operator import Accuracy, PlanOptions

_IMAGE, _FILTER, _PADDING = (2, 48, 28, 27), (64, 48, 3, 3), (1, 1, 1, 1)
_LARGE: list[tuple[Sample, Callable[..., dict[str, Expectation]]]] = [
    (
        deconvolution("NHWC", (1, 28, 28, 48), (1, 30, 30, 32), (3, 3)),
        deconv_grad_filter.expected,
    ),
    (
        deconvolution(
            *("taps first, groups", (4, 20, 19, 64), (4, 20, 19, 64), (3, 3)),
            pad_u=1,
            pad_l=1,
            group=2,
            row_order="kh_kw_oc",
        ),
        deconv_grad_filter.expected,
    ),
    (
        dw.gradient("raw in FRACTAL_Z", _IMAGE, _FILTER, padding=_PADDING, raw=True),
        conv2d_backprop_filter.expected,
    ),
    (
        dx.gradient("input in NC1HWC0", _IMAGE, _FILTER, padding=_PADDING, res_dtype="float32"),
        conv2d_backprop_input.expected,
    ),
]
every_large = pytest.mark.parametrize(
    ("sample", "expected"), _LARGE, ids=[sample.name for sample, _ in _LARGE]
)


@every_large
@pytest.mark.parametrize("accuracy", list(Accuracy))
def test_large_calls_are_within_the_bound_of_their_algorithm(
    sample: Sample, expected: Callable[..., dict[str, Expectation]], accuracy: Accuracy
) -> None:
    options = PlanOptions(accuracy=accuracy)
    transformed = accuracy is Accuracy.FAST
    assert is_transformed(sample, options) == transformed

    found = results(sample, options=options)

    expectations = expected(sample, sample.buffers(), transformed=transformed)
    for name, expectation in expectations.items():
        assert_meets(found[name], expectation)
