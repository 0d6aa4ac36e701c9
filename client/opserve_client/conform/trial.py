"""Trials in this process: nothing waits for anything else."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from opserve_client.conform.backend import LocalBackend
from opserve_client.conform.record import Header, Result
from opserve_client.conform.targets.target import HeldTarget
from opserve_kernels.cases.cache import cache_folder
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.expected import ExpectedFolder, Task
from opserve_kernels.conformance.trial import Trial
from opserve_kernels.verdict.judge_case import NO_STANDARDS, Standards

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTrial:
    """Tries the cases of a run.

    Attributes:
        header: Of the run.
        target: What is tried.
        backend: What computes besides.
        standards: Reported besides.
    """

    header: Header
    target: HeldTarget
    backend: LocalBackend
    standards: Standards = NO_STANDARDS

    def task(self, case: Case) -> Task:
        """A case that is to be judged."""
        return Task(
            case=case,
            seed=self.header.seed,
            contract=self.header.contracts[case.operator],
            standards=self.standards,
            expected_folder=ExpectedFolder(folder=cache_folder()),
        )

    def run(self, case: Case) -> Result:
        """Tries a case.

        Raises:
            InfrastructureError: Nothing can be said of it.
        """
        trial = Trial(
            target=self.target,
            backend=self.backend,
            warns=self.header.documented_rules == "warn",
            repeats=self.header.repeats,
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
