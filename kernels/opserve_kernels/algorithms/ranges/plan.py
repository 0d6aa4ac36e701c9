"""Plans of the stage that measures the range of operands."""

from opserve_kernels.algorithms.ranges.layout import (
    CHUNK,
    STATE_VALUES,
    RangedOperand,
    RangesStage,
)
from opserve_kernels.gradients import Operand
from opserve_kernels.records import encode
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace


def plan_ranges(
    kind: int, operands: tuple[Operand, Operand], flag: int, workspace: Workspace
) -> Stage:
    """The stage that raises a flag if the range of an operand is too wide for transforms.

    Args:
        kind: The stage's number.
        operands: Both factors of a product; each has elements.
        flag: Place in the workspace; its value is 0 or 1 afterwards.
        workspace: Provides the parts that the stage needs.
    """
    # One line serves both operands: they are measured one after the other.
    one, other = operands
    longest = max(one.count, other.count)
    assert min(one.count, other.count), "a product without elements is no product"
    stage = RangesStage(
        flag=flag,
        state=workspace.reserve(STATE_VALUES),
        line=workspace.reserve(min(CHUNK, longest)),
        one=_describe(one),
        other=_describe(other),
    )
    return Stage(
        kind=kind,
        units=sum(-(-operand.count // CHUNK) for operand in operands),
        parameters=(one.place, other.place, other.place, *encode(stage)),
    )


def _describe(operand: Operand) -> RangedOperand:
    return RangedOperand(
        length=operand.count, number_format=operand.number_format, layout=operand.view()
    )
