"""Plans of the stage that measures the range of operands."""

from opserve_kernels.gradients import Operand
from opserve_kernels.stages import Stage
from opserve_kernels.workspace import Workspace

# The parameters of a stage: the places of the flag, the state and a line of elements; elements of
# both operands and their number formats; then their views.
FLAG, STATE, LINE, COUNTS, FORMATS, FIRST = 0, 1, 2, 3, 5, 7

RANGE_BITS = 8
LEAST_EXPONENT = -110
LEAST_PRODUCT_EXPONENT = -116
CHUNK = 1 << 14  # elements of a unit: their line stays in the cache

STATE_VALUES = 10  # five integers of 64 bits


def plan_ranges(
    kind: int, operands: tuple[Operand, Operand], flag: int, workspace: Workspace
) -> Stage:
    """The stage that raises a flag if the range of an operand is too wide for transforms.

    Args:
        kind: The stage's number.
        operands: Both sides of a product; each has elements.
        flag: Place in the workspace; the value there is 0 afterwards, or 1.
        workspace: Gets what is needed.
    """
    counts = [operand.count for operand in operands]
    assert all(counts), "a product without elements is no product"
    numbers = (
        flag,
        workspace.reserve(STATE_VALUES),
        workspace.reserve(min(CHUNK, max(counts))),
        *counts,
        *(operand.number_format for operand in operands),
    )
    one, other = operands
    return Stage(
        kind=kind,
        units=sum(-(-count // CHUNK) for count in counts),
        parameters=(one.place, other.place, other.place, *numbers, *one.view(), *other.view()),
    )
