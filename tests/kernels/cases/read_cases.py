"""Accessors for tests of readers: the only call of a case, and its shapes."""

from kernels.cases.runs import plan_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.readers.read import Read

Row = tuple[int, ...]


def only(read: Read) -> Case:
    """The case of a text that makes one."""
    assert read.refused == ()
    (case,) = read.cases
    assert plan_of(case).units > 0
    return case


def shapes(case: Case) -> tuple[Row, Row, Row]:
    """Of input, weight and grad_output."""
    first, second, third = (case.tensors[name].shape for name in ("input", "weight", "grad_output"))
    return first, second, third
