"""Stages that fill, load, store or thin out a part of the workspace, and their records."""

from typing import NamedTuple

from opserve_kernels.convolution import Convolution
from opserve_kernels.gradients import Diagonal, Operand
from opserve_kernels.records import encode
from opserve_kernels.stages import Stage
from opserve_kernels.views import View

# Kinds of stages; those of the other modules have other numbers.
FILL, LOAD, STORE, KEEP_DIAGONAL = range(4)

COPY_ELEMENTS = 1 << 16  # elements that one unit copies, about 0.1 ms


class FillStage(NamedTuple):
    """A run of zeros.

    Attributes:
        start: Place of the first one.
        length: Number of values.
        chunk: Values of a unit.
    """

    start: int
    length: int
    chunk: int


class CopyStage(NamedTuple):
    """Elements between a tensor and the workspace.

    Attributes:
        tensor: Place of its buffer among those of the call.
        start: Place of the first element in the workspace.
        length: Number of elements.
        chunk: Elements of a unit.
        number_format: Format that they are rounded to.
        layout: View of the tensor.
    """

    tensor: int
    start: int
    length: int
    chunk: int
    number_format: int
    layout: View


class DiagonalStage(NamedTuple):
    """A weight that keeps only its groups' entries: opserve_kernels.gradients.Diagonal.

    Attributes:
        start: Place of the weight.
        groups: Number of groups.
        extend: Groups of a superblock.
        group_outputs: Output channels of a group.
        group_inputs: Input channels of a group.
        output_channels: Output channels of a superblock.
        input_channels: Input channels of a superblock.
        taps: Taps of the kernel.
    """

    start: int
    groups: int
    extend: int
    group_outputs: int
    group_inputs: int
    output_channels: int
    input_channels: int
    taps: int


def fill(start: int, count: int) -> Stage:
    """The stage that sets values to zero."""
    units = -(-count // COPY_ELEMENTS)
    stage = FillStage(start=start, length=count, chunk=COPY_ELEMENTS)
    return Stage(kind=FILL, units=units, parameters=encode(stage))


def load(operand: Operand, start: int, view: View) -> Stage:
    """The stage that loads a tensor's elements, rounded to the operand's number format."""
    return copy_stage(LOAD, operand, start, view, COPY_ELEMENTS)


def store(result: Operand, start: int, view: View) -> Stage:
    """The stage that stores a tensor, rounded to its number format and then to its dtype."""
    return copy_stage(STORE, result, start, view, COPY_ELEMENTS)


def keep_diagonal(diagonal: Diagonal, convolution: Convolution, start: int) -> Stage:
    """The stage that clears a weight outside its groups; a unit is an output channel."""
    stage = DiagonalStage(
        start=start,
        groups=diagonal.groups,
        extend=diagonal.extend,
        group_outputs=diagonal.output_channels,
        group_inputs=diagonal.input_channels,
        output_channels=convolution.output_channels,
        input_channels=convolution.input_channels,
        taps=convolution.taps,
    )
    units = convolution.groups * convolution.output_channels
    return Stage(kind=KEEP_DIAGONAL, units=units, parameters=encode(stage))


def copy_stage(kind: int, operand: Operand, start: int, view: View, chunk: int) -> Stage:
    """A stage that copies `chunk` elements a unit."""
    stage = copy_of(operand, start, view, chunk)
    return Stage(kind=kind, units=-(-operand.count // chunk), parameters=encode(stage))


def copy_of(operand: Operand, start: int, view: View, chunk: int = COPY_ELEMENTS) -> CopyStage:
    """The record of a stage that copies `chunk` elements a unit."""
    return CopyStage(
        tensor=operand.place,
        start=start,
        length=operand.count,
        chunk=chunk,
        number_format=operand.number_format,
        layout=view,
    )
