"""Bytes that runs of a call leave in each part of its workspace."""

import numpy as np
from numpy.typing import NDArray

from kernels.execution import ANY_PLAN, GUARD_BYTES, execute
from kernels.samples.sample import NUMPY_DTYPES, Bytes, Sample
from opserve_kernels.operator import WORKSPACE_ALIGNMENT, PlanOptions

Flags = NDArray[np.bool_]

_UNTOUCHED = np.uint32(0xFFFFFFFF)  # as `execute` fills a workspace; NaNs of operands differ
_WITHOUT_SIGN = np.uint32(0x7FFFFFFF)


def written(sample: Sample, options: PlanOptions = ANY_PLAN) -> Flags:
    """Whether anything is put into each part, for usual operands or for NaNs."""
    return np.logical_or(*(_any(bits != _UNTOUCHED) for bits in _left_behind(sample, options)))


def more_than_padded(sample: Sample, options: PlanOptions = ANY_PLAN) -> Flags:
    """Whether anything but zeros is."""
    return np.logical_or(
        *(
            _any((bits != _UNTOUCHED) & (bits & _WITHOUT_SIGN != 0))
            for bits in _left_behind(sample, options)
        )
    )


def _left_behind(sample: Sample, options: PlanOptions) -> list[NDArray[np.uint32]]:
    """The workspace behind a run with usual operands, and behind one where all are NaN.

    The second runs what stands in for algorithms that cannot do values that are not finite.
    """
    found: list[NDArray[np.uint32]] = []
    for buffers in (sample.buffers(), _with_nans(sample)):
        guarded = execute(sample, buffers, options=options)
        found.append(guarded[GUARD_BYTES:-GUARD_BYTES].view(np.uint32))
    return found


def _with_nans(sample: Sample) -> dict[str, Bytes]:
    buffers = sample.buffers()
    for name, tensor in sample.inputs.items():
        if NUMPY_DTYPES[tensor.dtype].kind != "i":
            tensor.view(buffers[name])[...] = np.nan
    return buffers


def _any(flags: Flags) -> Flags:
    """Of each part."""
    found: Flags = np.any(flags.reshape(-1, WORKSPACE_ALIGNMENT // 4), axis=1)
    return found
