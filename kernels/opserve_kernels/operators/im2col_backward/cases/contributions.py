"""Number of elements of the image that some block covers."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import cast

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.contributions import Contributions, contributions_of
from opserve_kernels.convolution import output_size

_SPATIAL = 2


def contributing(case: Case) -> Mapping[str, int]:
    """The number for the image; empty for an empty call."""
    if any(prod(tensor.shape) == 0 for tensor in case.inputs.values()):
        return dict.fromkeys(case.written, 0)
    whole = prod(case.tensors["out"].shape[:-_SPATIAL])
    return {"out": whole * prod(axis.large for axis in _axes(case))}


def _axes(case: Case) -> Iterator[Contributions]:
    """The spatial axes, in their order."""
    given = cast("Mapping[str, tuple[int, ...]]", case.arguments)
    names = ("input_size", "kernel_size", "stride", "dilation", "padding")
    for large, taps, stride, dilation, before in zip(*map(given.__getitem__, names), strict=True):
        small = output_size(
            large, kernel=taps, stride=stride, padding=2 * before, dilation=dilation
        )
        yield contributions_of(small, large, taps, stride, dilation, before)
