"""Directed histories: fixed steps of a machine, with its invariants after each, and planted bugs.

A history is a plain regression test: it takes the same steps on every machine and in every process.
The random search over all histories is in the slow tests.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine

AnyMachine = TypeVar("AnyMachine", bound=RuleBasedStateMachine)

CLEAN = settings(
    max_examples=40,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
"""The same histories in every run."""
SEARCH = settings(CLEAN, max_examples=1000, print_blob=True)
"""Many more of them; the profile `search` of tests/conftest.py draws new ones."""
PLANTED = settings(
    CLEAN,
    max_examples=4000,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)
"""Ends at the first history that fails, and keeps it as it is."""


@dataclass(frozen=True)
class Planted(Generic[AnyMachine]):
    """A bug, and steps that show it.

    Attributes:
        plant: Patches the service.
        steps: The history; without the bug it passes.
        message: Pattern of the machine's error for the bug.
    """

    plant: Callable[[pytest.MonkeyPatch], None]
    steps: Sequence[Callable[[AnyMachine], None]]
    message: str


def by_name(planted: Sequence[Planted[AnyMachine]]) -> pytest.MarkDecorator:
    """Runs a test for each bug, which it gets as `bug`."""
    return pytest.mark.parametrize("bug", planted, ids=[bug.plant.__name__ for bug in planted])


def go_through(machine: AnyMachine, steps: Sequence[Callable[[AnyMachine], None]]) -> None:
    """Takes the steps in order, with every invariant after each, and ends the machine.

    Raises:
        AssertionError: The first thing that does not hold.
    """
    try:
        for step in steps:
            step(machine)
            for invariant in machine.invariants:
                if all(holds(machine) for holds in invariant.preconditions):
                    invariant.function(machine)
    except BaseException:
        with suppress(Exception):  # the first failure is the one that counts
            machine.teardown()
        raise
    machine.teardown()
