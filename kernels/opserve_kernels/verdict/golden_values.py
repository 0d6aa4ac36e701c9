"""Golden values of a case: what the arbiter is asked for a call, what is kept of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from opserve_kernels.cases.arrays import view_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array, unwritten
from opserve_kernels.cases.golden import Doubles, GoldenCall, widened
from opserve_kernels.cases.projection import Projection
from opserve_kernels.verdict.judge_case import Golden

_VALUES, _MAGNITUDES = "values.", "magnitudes."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A call for the arbiter.

    Attributes:
        kept_as: What its answer is kept as: "values." or "magnitudes.".
        case: The call, on the profile `reference`.
        storages: Flat memory of its tensors before it, by name.
    """

    kept_as: str
    case: Case
    storages: Mapping[str, Array]


def questions_of(call: GoldenCall) -> Iterator[Question]:
    """One for the values, and one for the magnitudes if they are wanted."""
    operands = {name: widened(operand) for name, operand in call.operands.items()}
    yield _question(_VALUES, call.case, operands)
    if call.sized:
        magnitudes = {name: np.abs(operand) for name, operand in operands.items()}
        yield _question(_MAGNITUDES, call.sized, magnitudes)


def kept_arrays(question: Question, storages: Mapping[str, Array]) -> dict[str, Array]:
    """What is kept of an answer, flat memory of the outputs, by name."""
    case = question.case
    return {
        question.kept_as + name: view_of(storages[name], case.tensors[name])
        for name in case.written
    }


def goldens_in(arrays: Mapping[str, Array], projection: Projection | None) -> dict[str, Golden]:
    """The golden values of the outputs of a call, of the arrays that were kept."""
    values = {
        name.removeprefix(_VALUES): array
        for name, array in arrays.items()
        if name.startswith(_VALUES)
    }
    return {
        name: Golden(values=array, magnitudes=arrays.get(_MAGNITUDES + name), projection=projection)
        for name, array in values.items()
    }


def _question(kept_as: str, case: Case, operands: Mapping[str, Doubles]) -> Question:
    outputs = {
        name: unwritten(tensor.storage_elements, tensor.dtype)
        for name, tensor in case.outputs.items()
    }
    flat = {name: operand.reshape(-1) for name, operand in operands.items()}
    return Question(kept_as=kept_as, case=case, storages=flat | outputs)
