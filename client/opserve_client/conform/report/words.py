"""Descriptions of where an output is wrong: the pattern often identifies the bug."""

from collections.abc import Iterator, Sequence
from itertools import product

from opserve_kernels.verdict.verdict import HeatMap, OutputVerdict

_LEAST_OF_PERIOD = 3  # cells that distinguish a period from chance


def places(output: OutputVerdict) -> tuple[str, ...]:
    """Describes where the wrong elements of an output are: "grad_input: only at the last w"."""
    if not output.errors:
        return ()
    patterns = [one for heat in output.maps for one in _of_map(heat)]
    return tuple(f"{output.name}: wrong {one}" for one in patterns)


def _of_map(heat: HeatMap) -> Iterator[str]:
    cells = list(product(*map(range, heat.shape)))
    wrong = [cell for cell, used in zip(cells, heat.values, strict=True) if not used <= 1]
    if not wrong or len(wrong) == len(cells):
        return
    found = False
    for axis, name in enumerate(heat.axes):
        hit = sorted({cell[axis] for cell in wrong})
        if len(hit) < heat.shape[axis]:
            found = True
            yield f"only at {_pattern(name, hit, heat, axis)}"
    if not found and _is_border(wrong, cells, heat.shape):
        yield f"only at the border of {', '.join(heat.axes)}"


def _pattern(name: str, hit: Sequence[int], heat: HeatMap, axis: int) -> str:
    """Describes the wrong entries of an axis, which are some of its entries."""
    cells, step, size = heat.shape[axis], heat.steps[axis], heat.sizes[axis]
    first, last = hit[0] * step, min(hit[-1] * step + step, size) - 1
    extent = f"{first}" if first == last else f"{first} to {last}"
    if len(hit) == hit[-1] - hit[0] + 1:
        edge = "the first " * (hit[0] == 0) or "the last " * (hit[-1] == cells - 1)
        return f"{edge}{name} ({extent} of {size})"
    if hit == [0, cells - 1]:
        return f"both ends of {name} (of {size})"
    period = hit[1] - hit[0]
    regular = list(range(hit[0], cells, period)) == list(hit)
    if step == 1 and regular and len(hit) >= _LEAST_OF_PERIOD:
        return f"every {_ordinal(period)} {name}, from {hit[0]} on (of {size})"
    return f"{len(hit)} of {cells} places of {name}, within {extent}"


def _is_border(
    wrong: Sequence[tuple[int, ...]], cells: Sequence[tuple[int, ...]], shape: Sequence[int]
) -> bool:
    """Returns whether all wrong cells are at an end of an axis, and some other cells are not."""

    def at_end(cell: tuple[int, ...]) -> bool:
        return any(place in (0, size - 1) for place, size in zip(cell, shape, strict=True))

    return all(map(at_end, wrong)) and not all(map(at_end, cells))


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
