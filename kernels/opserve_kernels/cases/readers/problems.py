"""benchdnn's problem strings, like ic16ih7oc16oh7kh3ph1n"name", and their calls."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.cases.calls import Row
from opserve_kernels.cases.readers.read import Inexpressible, divided, integer
from opserve_kernels.convolution import output_size
from opserve_kernels.operators.convolution_backward.cases.calls import ConvolutionCall

_SIZES = ("g", "mb", "ic", "oc")
_PER_AXIS = ("i", "o", "k", "s", "p", "d")
_AXES = "dhw"
_KEYS = sorted(
    (*_SIZES, *(f"{name}{axis}" for name in _PER_AXIS for axis in _AXES)), key=len, reverse=True
)
_TOKEN = re.compile(rf"(?P<key>{'|'.join(_KEYS)})(?P<number>-?\d+)")
_BATCH = 2  # without an mb
# Values of an axis that change nothing: i and k must be given, o and p follow from them.
_DEFAULTS: Mapping[str, tuple[int | None, ...]] = {
    **dict.fromkeys(("i", "o", "k", "p", "d"), (None, 0)),
    "s": (None, 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A spatial dimension of a problem.

    Attributes:
        size: Size of the source.
        output: Size of the destination.
        kernel: Taps.
        stride: Step.
        before: Padding in front.
        after: Padding behind; below 0 if the kernel leaves the end out.
        dilation: Distance of taps, 1 or more.
    """

    size: int
    output: int
    kernel: int
    stride: int
    before: int
    after: int
    dilation: int

    @property
    def dilated_kernel(self) -> int:
        """Positions that the dilated kernel spans."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def is_trivial(self) -> bool:
        """Whether the problem is the same without the axis."""
        ones = self.size == self.output == self.kernel == 1
        return ones and self.before == 0 == self.after


_TRIVIAL = Axis(size=1, output=1, kernel=1, stride=1, before=0, after=0, dilation=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A parsed problem string.

    Attributes:
        groups: Groups of channels.
        says_groups: Whether it has g: a weight then has an axis of groups.
        batch: Entries.
        inner: Channels of the source.
        outer: Channels of the destination.
        numbers: Numbers of its axes: "ih" and so on.
    """

    groups: int
    says_groups: bool
    batch: int
    inner: int
    outer: int
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """A problem as a call.

    Attributes:
        call: The call.
        problem: The problem.
        axes: The problem's spatial dimensions.
        kept: For each of the call's axes, the index of the problem's; None without one.
    """

    call: ConvolutionCall
    problem: Problem
    axes: tuple[Axis, ...]
    kept: tuple[int | None, ...]


def problem_of(text: str) -> Problem:
    """The numbers of a problem string; underscores are ignored, n begins a name."""
    numbers: dict[str, int] = {}
    place = 0
    while place < len(text) and text[place] != "n":
        if text[place] == "_":
            place += 1
            continue
        token = _TOKEN.match(text, place)
        if token is None:
            raise Inexpressible(f"{text[place:][:32]!r} is no part of a problem")
        numbers[token["key"]] = integer(token["number"], token["key"])
        place = token.end()
    inner, outer = (numbers.pop(name, 0) for name in ("ic", "oc"))
    if inner < 1 or outer < 1:
        raise Inexpressible("a problem needs ic and oc, at least 1")
    says_groups, groups = "g" in numbers, numbers.pop("g", 1)
    divided(outer, groups, "g")
    divided(inner, groups, "g")
    return Problem(
        groups=groups,
        says_groups=says_groups,
        batch=numbers.pop("mb", _BATCH),
        inner=inner,
        outer=outer,
        numbers=numbers,
    )


def geometry_of(problem: Problem, *, transposed: bool) -> Geometry:
    """The convolution of a problem."""
    given = _axes(problem.numbers, transposed=transposed)
    kept: list[int | None] = list(range(len(given)))
    if not all(map(_symmetric, given)):
        kept = _planes(given)
    axes = [_TRIVIAL if place is None else given[place] for place in kept]
    call = _call(problem, axes, transposed=transposed)
    return Geometry(call=call, problem=problem, axes=tuple(given), kept=tuple(kept))


def _call(problem: Problem, axes: list[Axis], *, transposed: bool) -> ConvolutionCall:
    first, second = (problem.inner, problem.outer) if transposed else (problem.outer, problem.inner)
    if not all(map(_symmetric, axes)):
        padding: Row = tuple(
            side for axis in axes for side in _differing(axis, transposed=transposed)
        )
        extra: Row = (0,) * len(axes)
    else:
        padding = tuple(axis.before for axis in axes)
        extra = tuple(axis.before - axis.after for axis in axes) if transposed else ()
    return ConvolutionCall(
        input=(problem.batch, problem.inner, *(axis.size for axis in axes)),
        weight=(first, second // problem.groups, *(axis.kernel for axis in axes)),
        stride=tuple(axis.stride for axis in axes),
        padding=padding,
        dilation=tuple(axis.dilation for axis in axes),
        output_padding=extra if transposed else (),
        groups=problem.groups,
        transposed=transposed,
    )


def _axes(numbers: Mapping[str, int], *, transposed: bool) -> list[Axis]:
    """An axis without any number has those of the one before it: ih alone is a square."""
    given = [{name: numbers.get(f"{name}{axis}") for name in _PER_AXIS} for axis in _AXES]
    said = [any(row[name] not in _DEFAULTS[name] for name in _PER_AXIS) for row in given]
    if not any(said):
        raise Inexpressible("a problem needs sizes: ih, kh and so on")
    first = said.index(True)
    rows = given[first:]
    for place in range(1, len(rows)):
        if not said[first + place]:
            rows[place] = rows[place - 1]
    return [
        _axis(row, _AXES[first + place], transposed=transposed) for place, row in enumerate(rows)
    ]


def _axis(row: Mapping[str, int | None], name: str, *, transposed: bool) -> Axis:
    """An axis with the output's size that padding implies, or the padding that the size implies."""
    size, kernel, output, before = row["i"], row["k"], row["o"] or None, row["p"]
    if size is None or kernel is None:
        raise Inexpressible(f"i{name} and k{name} are needed with other numbers of axis {name}")
    stride, dilation = 1 if row["s"] is None else row["s"], (row["d"] or 0) + 1
    if min(size, kernel, stride, dilation, output or 1) < 1:
        raise Inexpressible(f"sizes of axis {name} are below 1")
    dilated_kernel = dilation * (kernel - 1) + 1
    if output is None:
        free = 2 * (before or 0)
        steps = {"kernel": kernel, "stride": stride, "padding": free, "dilation": dilation}
        adjoint = (size - 1) * stride + dilated_kernel - free
        output = adjoint if transposed else output_size(size, **steps)
    small, large = (size, output) if transposed else (output, size)
    both = (small - 1) * stride + dilated_kernel - large
    if before is None:
        before = both // 2 if both > 0 else -(-both // 2)
    return Axis(
        size=size,
        output=output,
        kernel=kernel,
        stride=stride,
        before=before,
        after=both - before,
        dilation=dilation,
    )


def _symmetric(axis: Axis) -> bool:
    """Whether one padding for both sides, with floor or output_padding, expresses an axis."""
    return axis.before >= 0 and 0 <= axis.before - axis.after < axis.stride


def _differing(axis: Axis, *, transposed: bool) -> tuple[int, int]:
    """Padding on both sides; a convolution's floor leaves out less than a step at the end."""
    least = 0 if transposed else 1 - axis.stride
    if axis.before < 0 or axis.after < least:
        raise Inexpressible(
            f"padding {axis.before} in front and {axis.after} behind: a call has none below 0"
        )
    return axis.before, max(axis.after, 0)


def _planes(axes: list[Axis]) -> list[int | None]:
    """Two axes, as only 2-D calls have a padding for each side, with or without trivial ones."""
    places: list[int | None] = list(range(len(axes)))
    if len(axes) == 1:
        return [None, *places]
    trivial = [place for place, axis in enumerate(axes) if axis.is_trivial]
    if len(axes) == len(_AXES) and not trivial:
        raise Inexpressible("padding in front and behind differ, which a 3-D call cannot express")
    if len(axes) == len(_AXES):
        places.remove(trivial[0])
    return places
