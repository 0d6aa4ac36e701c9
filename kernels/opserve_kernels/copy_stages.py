"""Stages that fill, load, store or thin out a part of the workspace."""

from opserve_kernels.convolution import Convolution
from opserve_kernels.gradients import Diagonal, Operand
from opserve_kernels.stages import Stage

# Kinds of stages; those of the other modules have other numbers.
FILL, LOAD, STORE, KEEP_DIAGONAL = range(4)

COPY_ELEMENTS = 1 << 16  # elements that one unit copies, about 0.1 ms


def fill(start: int, count: int) -> Stage:
    """Zeros."""
    units = -(-count // COPY_ELEMENTS)
    return Stage(kind=FILL, units=units, parameters=(start, count, COPY_ELEMENTS))


def load(operand: Operand, start: int, view: tuple[int, ...]) -> Stage:
    """A tensor's elements, rounded to the operand's number format."""
    return _copy(LOAD, operand, start, view)


def store(result: Operand, start: int, view: tuple[int, ...]) -> Stage:
    """Into a tensor, rounded to the result's number format and then to its dtype."""
    return _copy(STORE, result, start, view)


def keep_diagonal(diagonal: Diagonal, convolution: Convolution, start: int) -> Stage:
    """Zeros outside a weight's groups; one unit for each output channel of each superblock."""
    groups = (diagonal.groups, diagonal.extend)
    channels = (diagonal.output_channels, diagonal.input_channels)
    sizes = (convolution.output_channels, convolution.input_channels, convolution.taps)
    return Stage(
        kind=KEEP_DIAGONAL,
        units=convolution.groups * convolution.output_channels,
        parameters=(start, *groups, *channels, *sizes),
    )


def _copy(kind: int, operand: Operand, start: int, view: tuple[int, ...]) -> Stage:
    units = -(-operand.count // COPY_ELEMENTS)
    numbers = (operand.place, start, operand.count, COPY_ELEMENTS, operand.number_format)
    return Stage(kind=kind, units=units, parameters=(*numbers, *view))
