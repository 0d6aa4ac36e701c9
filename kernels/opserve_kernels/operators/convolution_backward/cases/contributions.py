"""Numbers of elements of each gradient that sum any products."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import cast

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.contributions import Contributions, contributions_of
from opserve_kernels.operators.convolution_backward.cases.calls import sides


def contributing(case: Case) -> Mapping[str, int]:
    """Numbers by gradient; empty for an empty call."""
    shapes = {name: tensor.shape for name, tensor in case.tensors.items()}
    if any(prod(shapes[name]) == 0 for name in case.inputs):
        return dict.fromkeys(case.written, 0)
    axes = list(_axes(case))
    image = [axis.small if case.arguments["transposed"] else axis.large for axis in axes]
    found = {
        "grad_input": prod(shapes["input"][:2]) * prod(image),
        "grad_weight": prod(shapes["weight"][:2]) * prod(axis.taps for axis in axes),
        "grad_bias": shapes["grad_output"][1],
    }
    return {name: found[name] for name in case.written}


def _axes(case: Case) -> Iterator[Contributions]:
    """The spatial axes, in their order."""
    given = cast("Mapping[str, tuple[int, ...]]", case.arguments)
    stride, dilation = given["stride"], given["dilation"]
    before = tuple(side for side, _ in sides(given["padding"], len(stride)))
    images = (case.tensors[name].shape[2:] for name in ("grad_output", "input"))
    small, large = reversed(tuple(images)) if case.arguments["transposed"] else images
    taps = case.tensors["weight"].shape[2:]
    for sizes in zip(small, large, taps, stride, dilation, before, strict=True):
        yield contributions_of(*sizes)
