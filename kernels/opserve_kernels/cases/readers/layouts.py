"""Layouts from benchdnn's tags and strides, as steps of a call's tensors."""

from math import prod

from opserve_kernels.cases.calls import Row
from opserve_kernels.cases.readers.problems import Geometry, Problem
from opserve_kernels.cases.readers.read import Inexpressible, integer

_LETTERS = "abcdef"  # of dimensions, outermost first
_SPATIAL = "dhw"
_BY_NAME = frozenset("nwoigh")  # letters that only tags like nhwc and hwio have
_UNSAID = frozenset(("", "any", "undef"))
OPERANDS = ("input", "weight", "grad_output")  # in the order of src:wei:dst


def steps_of(geometry: Geometry, operand: str, *, tag: str, strides: str) -> Row | None:
    """The steps of an operand of the call; None if neither tag nor strides are given.

    Args:
        geometry: The call, and its problem.
        operand: One of OPERANDS.
        tag: Tag of its layout, such as any, axb, nhwc or acdb.
        strides: Its part of --strides, such as 64x1x16x4; empty without one.
    """
    sizes = _sizes(geometry, operand)
    if strides:
        if tag not in _UNSAID:
            raise Inexpressible(f"--strides beside the layout {tag[:32]!r}: allowed is one of them")
        given = strides.split("x")
        if len(given) != len(sizes) or any(step.startswith("-") for step in given):
            message = (
                f"strides {strides[:32]!r} need a number of 0 or more for each of {len(sizes)} "
                "axes."
            )
            raise Inexpressible(f"--strides: {message}")
        steps = tuple(integer(step, "--strides") for step in given)
    elif tag in _UNSAID:
        return None
    else:
        steps = _packed(sizes, _order(tag, len(sizes), operand, geometry.problem))
    return _of_call(geometry, operand, sizes, steps)


def _sizes(geometry: Geometry, operand: str) -> Row:
    """The dimensions as benchdnn counts them: with g, groups are an axis of a weight."""
    problem, axes = geometry.problem, geometry.axes
    match operand:
        case "input":
            return (problem.batch, problem.inner, *(axis.size for axis in axes))
        case "grad_output":
            return (problem.batch, problem.outer, *(axis.output for axis in axes))
        case _:
            groups = (problem.groups,) if problem.says_groups else ()
            channels = problem.outer // problem.groups, problem.inner // problem.groups
            return (*groups, *channels, *(axis.kernel for axis in axes))


def _order(tag: str, rank: int, operand: str, problem: Problem) -> list[int]:
    """The dimensions from the outermost in memory to the innermost."""
    letters = _LETTERS[:rank]
    named = tag
    if _BY_NAME & set(tag):
        groups = "g" * (operand == "weight" and problem.says_groups)
        channels = f"{groups}oi" if operand == "weight" else "nc"
        words = f"{channels}{_SPATIAL[len(channels) - rank :]}"
        named = tag.translate(str.maketrans(words, letters)) if len(words) == rank else ""
    elif "x" in tag:
        rest = "".join(letter for letter in letters if letter not in tag)
        named = tag.replace("x", rest, 1)
    if sorted(named) != sorted(letters):
        raise Inexpressible(f"layout {tag[:32]!r} orders no tensor of {rank} axes, unblocked")
    return [letters.index(letter) for letter in named]


def _packed(sizes: Row, order: list[int]) -> Row:
    """Without gaps."""
    steps = {
        axis: prod(sizes[inner] for inner in order[place + 1 :]) for place, axis in enumerate(order)
    }
    return tuple(steps[axis] for axis in range(len(sizes)))


def _of_call(geometry: Geometry, operand: str, sizes: Row, steps: Row) -> Row:
    """The steps of the call's axes; an axis of size 1 may have any."""
    first = len(steps) - len(geometry.axes)
    spatial = [1 if place is None else steps[first + place] for place in geometry.kept]
    channels = list(steps[:first])
    if operand == "weight":
        outer, inner = sizes[first - 2 : first]
        ahead = inner if geometry.call.transposed else outer
        if geometry.call.transposed:
            channels[-2:] = channels[-1], channels[-2]
        if geometry.problem.says_groups:
            channels = _without_groups(channels, sizes[0], ahead)
    return (*channels, *spatial)


def _without_groups(steps: list[int], groups: int, size: int) -> list[int]:
    """Merges the axes of groups and of a group's channels into one."""
    between, within, last = steps
    if groups > 1 and size > 1 and between != within * size:
        raise Inexpressible("the groups of a weight's channels are not adjacent in the layout")
    return [within if size > 1 else between, last]
