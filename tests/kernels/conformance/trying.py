"""A target and a backend of tests: both answer at once with what a test has put there."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from kernels.cases.runs import run
from opserve_kernels.cases.arrays import placed_in
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.expected import (
    Answer,
    CallGroup,
    ExpectedFolder,
    PreparedCall,
    Task,
    answers_to,
)
from opserve_kernels.conformance.target import Outcome
from opserve_kernels.verdict.judge_case import Arrays

ResultT = TypeVar("ResultT")
Array = np.ndarray[Any, Any]


@dataclass
class Scripted:
    """Comes to one outcome after the other.

    Attributes:
        outcomes: They.
        reason: Why it skips every case.
        reads: What was to be read of each call.
    """

    outcomes: Sequence[Outcome] = ()
    reason: str = ""
    reads: list[set[str]] = field(default_factory=list[set[str]])

    def skips(self, case: Case) -> str:
        del case
        return self.reason

    async def run(self, case: Case, before: Arrays, *, read: Collection[str]) -> Outcome:
        del case, before
        self.reads.append(set(read))
        return self.outcomes[len(self.reads) - 1]


@dataclass
class Kernels:
    """Computes in this process; the reference is its own kernels.

    Attributes:
        asked: Questions to the reference.
    """

    asked: list[PreparedCall] = field(default_factory=list[PreparedCall])

    async def do(self, work: Callable[[], ResultT]) -> ResultT:
        return work()

    async def answers(self, calls: Sequence[CallGroup]) -> Sequence[Answer]:
        return await answers_to(calls, self._answered)

    async def _answered(self, prepared: PreparedCall) -> Arrays:
        self.asked.append(prepared)
        return after(prepared.case, prepared.storages)


def after(case: Case, storages: Arrays) -> Mapping[str, Array]:
    """Memory after a call of our own kernels."""
    memory = {name: storage.copy() for name, storage in storages.items()}
    run(case, placed_in(case, memory))
    return memory


def task_of(case: Case, folder: Path = Path("/nonexistent")) -> Task:
    return Task(case=case, seed=5, contract="1", expected_folder=ExpectedFolder(folder=folder))
