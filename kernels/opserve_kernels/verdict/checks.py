"""Checks besides the values: elements written, memory left unchanged, repeatability."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.verdict.dtypes import Doubles, Given
from opserve_kernels.verdict.verdict import Check, Index, Status

LISTED = 10  # elements that a check lists
_Mask = NDArray[np.bool]


def check_written(tensor: str, given: Given, expected: Doubles, unwritten: Given) -> Check:
    """Whether an output that was filled with a NaN was written everywhere.

    Only the bits of that NaN count: any other NaN is a result. Where the expected value is a NaN,
    an unwritten element is right.

    Args:
        tensor: Its name.
        given: The output after the call.
        expected: Its expected values.
        unwritten: Initial value of the output: an array of the same dtype with one element.
    """
    left = (_bits(given) == _bits(unwritten).reshape(())) & ~np.isnan(expected)
    return _check("written", tensor, left, wrong="were not written", right="was written everywhere")


def check_gaps(tensor: str, before: Given, after: Given, covered: _Mask) -> Check:
    """Whether storage that belongs to no element of a strided output is unchanged.

    Args:
        tensor: Its name.
        before: The flat storage before the call.
        after: The same after it.
        covered: Elements of the storage that belong to the output (elements_of_view).
    """
    changed = (_bits(before) != _bits(after)) & ~covered
    return _check("gaps", tensor, changed, wrong="between elements changed", right="has its gaps")


def check_untouched(tensor: str, before: Given, after: Given) -> Check:
    """Whether an input, or an output that a mask leaves out, is unchanged, bit by bit."""
    changed = _bits(before) != _bits(after)
    return _check("untouched", tensor, changed, wrong="changed", right="is as it was")


def check_repeats(tensor: str, runs: Sequence[Given]) -> Check:
    """Whether equal calls have equal bits: if not, the case is NONDETERMINISTIC.

    Args:
        tensor: Name of the output.
        runs: The output of each call.
    """
    differs = np.zeros(runs[0].shape, np.bool)
    for run in runs[1:]:
        differs |= _bits(run) != _bits(runs[0])
    return _check(
        "repeats",
        tensor,
        differs,
        wrong=f"differ in {len(runs)} equal calls",
        right=f"is the same in {len(runs)} equal calls",
        otherwise=Status.NONDETERMINISTIC,
    )


def elements_of_view(elements: int, shape: Index, strides: Index, offset: int) -> _Mask:
    """The elements of a flat storage that belong to a view.

    Args:
        elements: Elements of the storage.
        shape: Shape of the view.
        strides: Elements between neighbours, by dimension.
        offset: Elements before the first one of the view.
    """
    places = np.full((), offset, np.int64)
    for size, stride in zip(shape, strides, strict=True):
        places = places[..., np.newaxis] + np.arange(size, dtype=np.int64) * stride
    covered = np.zeros(elements, np.bool)
    covered[places.reshape(-1)] = True
    return covered


def _bits(array: Given) -> NDArray[np.uint8] | NDArray[np.uint64]:
    """The array as unsigned integers of the same width."""
    whole = np.ascontiguousarray(array)
    return whole.view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _check(
    name: str,
    tensor: str,
    complaints: _Mask,
    *,
    wrong: str,
    right: str,
    otherwise: Status = Status.FAILED,
) -> Check:
    places = np.flatnonzero(complaints)
    first = np.unravel_index(places[:LISTED], complaints.shape)
    indices = tuple(tuple(int(i) for i in index) for index in zip(*first, strict=True))
    message = right
    if indices:
        message = f"{places.size} of {complaints.size} elements {wrong}, the first at {indices[0]}"
    return Check(
        name=name,
        tensor=tensor,
        status=otherwise if indices else Status.PASSED,
        reason=f"{tensor}: {message}",
        elements=int(places.size),
        first=indices,
    )
