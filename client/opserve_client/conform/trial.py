"""Trials of cases in this process, without an event loop."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from opserve_client.conform.backend import LocalBackend
from opserve_client.conform.record import Header, Result
from opserve_client.conform.targets.target import ClosableTarget
from opserve_kernels.cases.arrays import Recorded, nothing_recorded
from opserve_kernels.cases.cache import cache_folder
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.expected import ExpectedFolder, Task
from opserve_kernels.conformance.trial import Trial
from opserve_kernels.verdict.judge_case import NO_STANDARDS, Standards

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTrial:
    """The trial of a run's cases.

    Attributes:
        header: Header of the run.
        target: The tested implementation.
        backend: Backend for inputs, expected values and verdicts.
        standards: Standards to report beside the verdicts, and gates.
        recorded: Function that returns the recorded inputs of a case.
    """

    header: Header
    target: ClosableTarget
    backend: LocalBackend
    standards: Standards = NO_STANDARDS
    recorded: Recorded = nothing_recorded

    def task(self, case: Case) -> Task:
        """Returns the task for a case."""
        return Task(
            case=case,
            seed=self.header.seed,
            contract=self.header.contracts[case.operator],
            standards=self.standards,
            expected_folder=ExpectedFolder(folder=cache_folder()),
            recorded=self.recorded,
        )

    def run(self, case: Case) -> Result:
        """Runs and judges a case.

        Raises:
            InfrastructureError: The case has no verdict, because a service or file failed.
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
        """Closes the target and the backend."""
        self.target.close()
        self.backend.close()


def at_once(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Returns the result of a coroutine that never waits.

    No event loop runs meanwhile, so a tested function may run its own.
    """
    try:
        work.send(None)
    except StopIteration as end:
        result: ResultT = end.value
        return result
    work.close()
    raise RuntimeError("a coroutine of a local target or backend waited")
