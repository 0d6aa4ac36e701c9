"""Every algorithm forced by an option of the plan, and the calls that each must compute."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import accumulate
from operator import mul
from typing import Any

import pytest

from kernels.execution import ANY_PLAN, plan_of, results
from kernels.oracles.expectation import assert_meets
from kernels.samples.convolution_backward import convolution
from kernels.samples.im2col_backward import image
from kernels.samples.sample import Sample, Values
from opserve_kernels.algorithms.host import VARIANT
from opserve_kernels.algorithms.names import Algorithm
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import PlanOptions
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import DataType

NOTHING = "image: nothing"
"""A name of no algorithm."""


def possible(sample: Sample, options: PlanOptions = ANY_PLAN) -> list[str]:
    """Algorithms for each gradient of a call, from the refusal of any other."""
    with pytest.raises(InvalidArgument) as refusal:
        plan_of(sample, replace(options, algorithms=(NOTHING,)))
    return refusal.value.allowed.partition(": ")[2].split(", ")


def forced(sample: Sample, algorithm: Algorithm) -> PlanOptions:
    """Whatever it can compute of a call, it computes."""
    ways = [way for way in possible(sample) if way.endswith(f": {algorithm}")]
    return replace(ANY_PLAN, algorithms=tuple(ways))


def with_gaps(sample: Sample) -> Sample:
    """The same call on every other element, from the fifth on."""
    return _laid_out(sample, step=2, outermost=1)


def within_larger(sample: Sample) -> Sample:
    """The same call on strided tensors, from the fifth element on."""
    return _laid_out(sample, step=1, outermost=3)


def _laid_out(sample: Sample, *, step: int, outermost: int) -> Sample:
    tensors: dict[str, Any] = {}
    for name, tensor in sample.tensors.items():
        if tensor is not None:
            *inner, first = accumulate(reversed((*tensor.shape[1:], step)), mul)
            strides = (first * outermost, *reversed(inner))
            tensors[name] = replace(tensor, strides=strides, offset=5)
    return sample.but(f"{sample.name}, step {step}, {outermost}", **tensors)


def _convolutions(*samples: Sample) -> Sequence[Sample]:
    """Samples, of which the first also runs on views, in 16 bits and with odd values."""
    first = samples[0]
    halves = {
        name: replace(tensor, dtype=DataType.FLOAT16)
        for name, tensor in first.tensors.items()
        if tensor is not None
    }
    special = {
        name: replace(tensor, values=Values.SPECIAL) for name, tensor in first.inputs.items()
    }
    others = (first.but("halves", **halves), first.but("special", **special))
    return *samples, with_gaps(first), within_larger(first), *others


def transformed(sample: Sample, options: PlanOptions) -> list[str]:
    """The outputs that Winograd's algorithm computes."""
    names = {"image": "grad_input", "output": "grad_input", "weight": "grad_weight"}
    chosen = [algorithm.split(": ") for algorithm in plan_of(sample, options).algorithms]
    return [names[product] for product, algorithm in chosen if algorithm == "winograd"]


def assert_within_the_bound(sample: Sample, options: PlanOptions) -> None:
    oracle: Any = import_module(f"kernels.oracles.{sample.operator}").expected
    by_transforms = transformed(sample, options)
    how: dict[str, Any] = {}
    if by_transforms:
        several = len(OPERATORS[sample.operator].outputs) > 1
        how = {"transformed": by_transforms if several else True}
    found = results(sample, options=options)
    for name, expectation in oracle(sample, sample.buffers(), **how).items():
        assert_meets(found[name], expectation)


_AROUND: dict[str, Any] = {"padding": (1, 1)}
_FAR: dict[str, Any] = {"padding": (5, 7), "dilation": (2, 3)}
_STRIDED: dict[str, Any] = {"stride": (2, 3), "padding": (1, 1)}
_TURNED: dict[str, Any] = {"transposed": True, "stride": (2, 3), "output_padding": (1, 2)}
_GENERAL = _convolutions(
    convolution("odd channels", (2, 17, 9, 8), (19, 17, 3, 3), **_AROUND),
    convolution("one pixel", (3, 5, 1, 1), (3, 5, 3, 3), **_AROUND),
    convolution("padding beyond the kernel", (1, 5, 2, 3), (9, 5, 3, 3), **_FAR),
    convolution("output padding", (2, 9, 4, 5), (9, 5, 3, 3), **_TURNED),
    convolution("groups", (2, 12, 6, 7), (9, 4, 3, 2), groups=3, **_STRIDED),
    convolution("one tap", (2, 33, 5, 6), (5, 33, 1, 1)),
    convolution("one channel, one tap", (2, 2, 5, 6), (10, 1, 1, 1), groups=2),
    convolution("3-D", (1, 3, 4, 5, 6), (4, 3, 2, 3, 3), padding=(1, 0, 1), stride=(2, 1, 2)),
)
_WITHOUT_STRIDE = _convolutions(
    convolution("odd channels", (2, 17, 9, 8), (19, 17, 3, 3), **_AROUND),
    convolution("one pixel", (3, 5, 1, 1), (3, 5, 3, 3), **_AROUND),
    convolution("padding beyond the kernel", (1, 5, 2, 3), (9, 5, 3, 3), **_FAR),
    convolution("other padding behind", (2, 9, 6, 5), (9, 9, 3, 3), padding=(0, 3, 2, 1)),
    convolution("turned", (2, 9, 6, 5), (9, 5, 3, 3), padding=(1, 2), transposed=True),
    convolution("groups", (2, 12, 6, 7), (9, 4, 3, 3), groups=3, **_AROUND),
    convolution("5x5", (2, 17, 9, 8), (9, 17, 5, 5), padding=(2, 2)),
    convolution("1-D", (2, 17, 30), (9, 17, 3), padding=(1,)),
)
_OF_ONE_CHANNEL = _convolutions(
    convolution("odd channels", (2, 19, 9, 8), (19, 1, 3, 3), groups=19, **_AROUND),
    convolution("one pixel", (3, 5, 1, 1), (5, 1, 3, 3), groups=5, **_AROUND),
    convolution("padding beyond the kernel", (1, 5, 2, 3), (5, 1, 3, 3), groups=5, **_FAR),
    convolution("output padding", (2, 9, 4, 5), (9, 1, 3, 3), groups=9, **_TURNED),
    convolution("groups of three", (2, 3, 6, 7), (9, 1, 3, 2), groups=3, **_STRIDED),
    convolution("stride 2", (2, 5, 9, 37), (5, 1, 5, 5), groups=5, stride=(2, 2), padding=(2, 2)),
)
_FOLDS = (
    image("odd channels", (2, 17, 9, 8), (3, 2), **_AROUND),
    image("one pixel", (2, 3, 1, 1), (3, 3), **_AROUND),
    image("padding beyond the kernel", (1, 3, 2, 3), (3, 3), **_FAR),
    image("strided", (2, 3, 9, 11), (2, 3), **_STRIDED),
    with_gaps(image("odd channels", (2, 17, 9, 8), (3, 2), **_AROUND)),
    within_larger(image("odd channels", (2, 17, 9, 8), (3, 2), **_AROUND)),
    image("tiles", (2, 3, 6, 9), (2, 3), stride=(2, 3)),
)
_TILES = (
    image("odd channels", (2, 17, 6, 39), (2, 3), stride=(2, 3)),
    image("one pixel", (2, 3, 1, 1), (1, 1)),
    within_larger(image("odd channels", (2, 17, 6, 9), (2, 3), stride=(2, 3))),
)


def in_bfloat(sample: Sample) -> Sample:
    """The same call in BF16."""
    tensors = {name: tensor for name, tensor in sample.tensors.items() if tensor is not None}
    changes = {name: replace(tensor, dtype=DataType.BF16) for name, tensor in tensors.items()}
    return sample.but(f"{sample.name} in BF16", **changes)


CALLS: Mapping[Algorithm, Sequence[Sample]] = {
    Algorithm.REFERENCE: [replace(sample, profile="reference") for sample in (*_GENERAL, *_FOLDS)],
    Algorithm.COLUMNS: _GENERAL,
    Algorithm.DEPTHWISE: _OF_ONE_CHANNEL,
    Algorithm.PACKED: _GENERAL,
    Algorithm.FLAT: _GENERAL,
    Algorithm.DOTS: _GENERAL,
    Algorithm.OUTER: _GENERAL,
    Algorithm.PAIRS: [in_bfloat(sample) for sample in _GENERAL] if VARIANT.pairs else (),
    Algorithm.WINOGRAD: _WITHOUT_STRIDE,
    Algorithm.FOLD: _FOLDS,
    Algorithm.PERMUTE: _TILES,
}
"""Calls for each forced algorithm, with all gradients that it can compute."""
