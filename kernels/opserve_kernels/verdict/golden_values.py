"""Golden values of a case: what the arbiter is given for a call, and what it gives."""

from collections.abc import Mapping

import numpy as np

from opserve_kernels.cases.arrays import view_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array, unwritten
from opserve_kernels.cases.golden import Doubles, GoldenCall
from opserve_kernels.verdict.judge_case import Golden, goldens_of_call

_VALUES, _MAGNITUDES = "values.", "magnitudes."


def storages_of(case: Case, operands: Mapping[str, Doubles]) -> Mapping[str, Array]:
    """Flat memory of every tensor before a call of the arbiter."""
    outputs = {
        name: unwritten(tensor.storage_elements, tensor.dtype)
        for name, tensor in case.outputs.items()
    }
    return {name: operand.reshape(-1) for name, operand in operands.items()} | outputs


def magnitudes_of(operands: Mapping[str, Doubles]) -> Mapping[str, Doubles]:
    """The operands without their signs."""
    return {name: np.abs(operand) for name, operand in operands.items()}


def kept_arrays(
    case: Case, values: Mapping[str, Array], magnitudes: Mapping[str, Array]
) -> dict[str, Array]:
    """What is kept of the two calls, by name.

    Args:
        case: The call.
        values: Flat memory of every tensor after it.
        magnitudes: The same after the call on magnitudes.
    """
    return {
        prefix + name: view_of(storages[name], case.tensors[name])
        for prefix, storages in ((_VALUES, values), (_MAGNITUDES, magnitudes))
        for name in case.written
    }


def goldens_in(call: GoldenCall, arrays: Mapping[str, Array]) -> dict[str, Golden]:
    """The golden values of a call's outputs, of the arrays that were kept."""
    values, magnitudes = (
        {name: arrays[kind + name] for name in call.case.written} for kind in (_VALUES, _MAGNITUDES)
    )
    return goldens_of_call(call, values, magnitudes)
