"""Trials in this process: nothing waits for anything else."""

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from opserve_client.conform.backend import LocalBackend
from opserve_client.conform.record import Result
from opserve_client.conform.targets.target import HeldTarget
from opserve_kernels.cases.cache import cache_folder
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.expected import Shelf, Task
from opserve_kernels.conformance.trial import Trial
from opserve_kernels.verdict.judge_case import NO_STANDARDS, Standards

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTrial:
    """Tries the cases of a run.

    Attributes:
        target: What is tried.
        backend: What computes besides.
        contracts: Revision of each operator's contract.
        seed: That inputs are drawn by.
        repeats: Equal calls, whose bits must be equal.
        warns: Whether the target accepts calls that break a rule of the vendor's page alone.
        standards: Reported besides.
    """

    target: HeldTarget
    backend: LocalBackend
    contracts: Mapping[str, str]
    seed: int
    repeats: int = 1
    warns: bool = False
    standards: Standards = NO_STANDARDS

    def task(self, case: Case) -> Task:
        """A case that is to be judged."""
        return Task(
            case=case,
            seed=self.seed,
            contract=self.contracts[case.operator],
            standards=self.standards,
            shelf=Shelf(folder=cache_folder()),
        )

    def run(self, case: Case) -> Result:
        """Tries a case.

        Raises:
            InfrastructureError: Nothing can be said of it.
        """
        trial = Trial(
            target=self.target, backend=self.backend, warns=self.warns, repeats=self.repeats
        )
        tried = at_once(trial.run(self.task(case)))
        warnings = tuple(map(str, tried.warnings))
        return Result(case=case, verdict=tried.verdict, seconds=tried.seconds, warnings=warnings)

    def close(self) -> None:
        """Ends what the target and the backend hold."""
        self.target.close()
        self.backend.close()


def at_once(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of a coroutine that waits for nothing.

    No event loop runs meanwhile, so that a function that is tried may run its own.
    """
    try:
        work.send(None)
    except StopIteration as end:
        result: ResultT = end.value
        return result
    work.close()
    raise RuntimeError("a coroutine waited that must not")
