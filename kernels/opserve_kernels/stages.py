"""A plan's parameters as a list of stages, each a loop over some of the call's work units."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.operator import Plan
from opserve_kernels.workspace import Workspace

Integers = NDArray[np.int64]
# Header of a stage: its kind, its units, the number of its parameters, and its condition.
# Numbers before the parameters of a stage: its kind, units, how many they are and its condition.
HEADER = 4
ALWAYS = -1

INTERLEAVE = 5
"""Kind of a stage; those of the other modules have other numbers."""

_MOST_TURNS = 1 << 12  # turns at most: finding a unit counts them, in about 0.01 ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A part of a call that ends before the next one begins.

    Attributes:
        kind: Kind of the loop; the operator's plan and kernel agree on the numbers.
        units: Its work units; they run in order.
        parameters: Everything that the loop needs besides memory.
        condition: Place in the workspace of a value; the stage is skipped if that is 0. Or ALWAYS.
        algorithm: Gradient and algorithm, for reports; empty if there is no choice.
    """

    kind: int
    units: int
    parameters: tuple[int, ...]
    condition: int = ALWAYS
    algorithm: str = ""


def interleaved(stages: Sequence[Stage]) -> list[Stage]:
    """Interleaves stages without conditions into one: a part of each follows a part of the others.

    Turn t of n ends behind unit units * (t + 1) / n of each stage, rounded up. A stage may prepare
    itself in its first unit: if it has one unit more than there are turns, each turn has one unit,
    the first two.
    """
    if len(stages) == 1:
        return list(stages)
    assert all(stage.condition == ALWAYS for stage in stages)
    turns = max(1, min(_MOST_TURNS, *(stage.units - 1 for stage in stages)))
    units = sum(stage.units for stage in stages)
    return [Stage(kind=INTERLEAVE, units=units, parameters=(turns, *_packed(stages)))]


def plan_of(
    shares: Sequence[Sequence[Stage]],
    workspace: Workspace,
    algorithms: Iterable[str] = (),
    *,
    variant: str = "",
) -> Plan:
    """The plan of a call with the stages of each share, which use this workspace."""
    return Plan(
        workspace_size=workspace.size_bytes,
        shares=tuple(sum(stage.units for stage in share) for share in shares),
        parameters=tuple(_packed(chain(*shares))),
        algorithms=tuple(sorted(algorithms)),
        variant=variant,
    )


def stage_ends(packed: Sequence[int]) -> list[int]:
    """One past the last unit of each stage."""
    ends: list[int] = []
    position = end = 0
    while position < len(packed):
        _, units, count, _ = packed[position : position + HEADER]
        end += units
        ends.append(end)
        position += HEADER + count
    return ends


def stages_between(
    packed: Integers, first_unit: int, last_unit: int
) -> Iterator[tuple[int, Integers, int, int]]:
    """The stages that the call's units first_unit .. last_unit-1 fall into.

    Yields:
        Kind and parameters of a stage, and the first and last of its own units.
    """
    position, start = 0, 0
    while position < packed.size and start < last_unit:
        kind, units, count, _ = packed[position : position + HEADER].tolist()
        first, last = max(first_unit - start, 0), min(last_unit - start, units)
        if first < last:
            parameters = packed[position + HEADER : position + HEADER + count]
            yield kind, parameters, first, last
        position += HEADER + count
        start += units


def _packed(stages: Iterable[Stage]) -> list[int]:
    packed: list[int] = []
    for stage in stages:
        packed += (stage.kind, stage.units, len(stage.parameters), stage.condition)
        packed += stage.parameters
    return packed
