"""The checks beside the values: what was written, what was left alone, what comes out again."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.verdict.dtypes import Doubles, Given
from opserve_kernels.verdict.verdict import Check, Index, Status

LISTED = 10  # elements that a check names
_Mask = NDArray[np.bool]


def check_written(tensor: str, given: Given, expected: Doubles, unwritten: Given) -> Check:
    """Whether an output that was filled with a NaN was written everywhere.

    Where the expected value is a NaN, a NaN that was left cannot be told from one that was written
    if their bits are the same.

    Args:
        tensor: Its name.
        given: The output after the call.
        expected: Its expected values.
        unwritten: What it was filled with before: an array of the same dtype with one element.
    """
    left = (_bits(given) == _bits(unwritten).reshape(())) & ~np.isnan(expected)
    return _check("written", tensor, left, wrong="were not written", right="was written everywhere")


def check_gaps(tensor: str, before: Given, after: Given, reached: _Mask) -> Check:
    """Whether storage that belongs to no element of a strided output is as it was.

    Args:
        tensor: Its name.
        before: The flat storage before the call.
        after: The same after it.
        reached: Which elements of the storage are the output's (reached_by).
    """
    changed = (_bits(before) != _bits(after)) & ~reached
    return _check("gaps", tensor, changed, wrong="between elements changed", right="has its gaps")


def check_untouched(tensor: str, before: Given, after: Given) -> Check:
    """Whether an input, or an output that a mask leaves out, is as it was, bit by bit."""
    changed = _bits(before) != _bits(after)
    return _check("untouched", tensor, changed, wrong="changed", right="is as it was")


def check_repeats(tensor: str, runs: Sequence[Given]) -> Check:
    """Whether equal calls gave equal bits: if not, the case is NONDETERMINISTIC.

    Args:
        tensor: Name of the output.
        runs: What each call wrote.
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


def reached_by(elements: int, shape: Index, strides: Index, offset: int) -> _Mask:
    """Which elements of a flat storage a view has.

    Args:
        elements: Of the storage.
        shape: Of the view.
        strides: Elements between neighbours, by dimension.
        offset: Elements before the first one of the view.
    """
    places = np.full((), offset, np.int64)
    for size, stride in zip(shape, strides, strict=True):
        places = places[..., np.newaxis] + np.arange(size, dtype=np.int64) * stride
    reached = np.zeros(elements, np.bool)
    reached[places.reshape(-1)] = True
    return reached


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
    told = right
    if indices:
        told = f"{places.size} of {complaints.size} elements {wrong}, the first at {indices[0]}"
    return Check(
        name=name,
        tensor=tensor,
        status=otherwise if indices else Status.PASSED,
        reason=f"{tensor}: {told}",
        elements=int(places.size),
        first=indices,
    )
