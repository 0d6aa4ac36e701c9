"""A plan's parameters as a list of stages, each a loop over some of the call's work units."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from opserve_kernels.operator import Plan
from opserve_kernels.workspace import Workspace

Integers = NDArray[np.int64]
# Numbers before the parameters of a stage: its kind, units, how many they are and its condition.
HEADER = 4
ALWAYS = -1

TAKE_TURNS = 5
"""Kind of a stage; those of the other modules have other numbers."""

_MOST_TURNS = 1 << 12  # which are counted to find a unit: about 0.01 ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A part of a call that ends before the next one begins.

    Attributes:
        kind: Which loop; the operator's plan and kernel agree on the numbers.
        units: Its work units; they run in order.
        parameters: What the loop needs besides memory.
        condition: Place in the workspace of a value without which the stage is left out, where it
            is 0; or ALWAYS.
        algorithm: What it computes and by which algorithm, to be told; empty if there is no choice.
    """

    kind: int
    units: int
    parameters: tuple[int, ...]
    condition: int = ALWAYS
    algorithm: str = ""


def taking_turns(stages: Sequence[Stage]) -> list[Stage]:
    """Stages without conditions as one, in which a part of each follows another's.

    Turn t of n ends behind unit units * (t + 1) / n of each, rounded up: with one unit more than
    there are turns, which a stage may prepare itself in, each turn has one and the first two.
    """
    if len(stages) == 1:
        return list(stages)
    assert all(stage.condition == ALWAYS for stage in stages)
    turns = max(1, min(_MOST_TURNS, *(stage.units - 1 for stage in stages)))
    units = sum(stage.units for stage in stages)
    return [Stage(kind=TAKE_TURNS, units=units, parameters=(turns, *_packed(stages)))]


def plan_of(
    shares: Sequence[Sequence[Stage]], workspace: Workspace, algorithms: Iterable[str] = ()
) -> Plan:
    """The plan of a call with the stages of each share, which need that workspace."""
    return Plan(
        workspace_size=workspace.size_bytes,
        shares=tuple(sum(stage.units for stage in share) for share in shares),
        parameters=tuple(_packed(chain(*shares))),
        algorithms=tuple(sorted(algorithms)),
    )


def stage_ends(packed: Sequence[int]) -> list[int]:
    """The unit behind the last of each stage."""
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
