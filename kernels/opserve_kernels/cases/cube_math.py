"""The computation of a case's products, for operators with cube_math_type."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

from opserve_kernels.cases.case import Case
from opserve_kernels.cube_math import Computation, computation_of, promoted, supported_kind
from opserve_kernels.number_formats import Operands
from opserve_kernels.tensor import DataType


def case_computation(case: Case, operands: Iterable[str]) -> Computation:
    """The computation of a supported case of the named operands."""
    kind = cast("int", case.arguments["cube_math_type"])
    computation = computation_of(case.profile, _promoted(case, operands), kind)
    assert computation is not None
    return computation


def case_operands(case: Case, operands: Iterable[str]) -> Mapping[str, Operands]:
    """The roundings of the named operands of a supported case; empty without any."""
    names = tuple(operands)
    rounding = case_computation(case, names).operands
    return {} if rounding is Operands.AS_GIVEN else dict.fromkeys(names, rounding)


def with_supported_kind(case: Case, operands: Iterable[str]) -> Case | None:
    """The case with a cube_math_type that its profile supports; None if there is none."""
    given = cast("int", case.arguments["cube_math_type"])
    kind = supported_kind(case.profile, _promoted(case, operands), given)
    if kind is None:
        return None
    return replace(case, arguments={**case.arguments, "cube_math_type": kind})


def _promoted(case: Case, operands: Iterable[str]) -> DataType:
    return promoted(*(case.tensors[name].dtype for name in operands))
