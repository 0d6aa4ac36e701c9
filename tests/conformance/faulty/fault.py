"""A wrong kernel with its description, and changes of calls that faults share."""

from dataclasses import dataclass, replace

from conformance.faulty.correct import Array, Call
from conformance.faulty.forms import OPERATORS
from conformance.faulty.kernel import Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A wrong kernel.

    Attributes:
        description: The defect, for the table.
        kernel: The kernel.
        operators: Operators whose kernels can have it.
    """

    description: str
    kernel: Kernel
    operators: tuple[str, ...] = OPERATORS


def changed(call: Call, **operands: Array) -> Call:
    """The call with other operands."""
    return replace(call, operands={**call.operands, **operands})


def incoming(call: Call) -> str:
    """The operand that is a factor of every product."""
    return next(name for name in ("columns", "pixels", "grad_output") if name in call.operands)


def without_bias(call: Call) -> Call:
    """The call without a bias that is added."""
    return replace(call, operands={k: v for k, v in call.operands.items() if k != "added"})
