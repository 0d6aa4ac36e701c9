"""Processes that try cases: whatever a target does to its process, the others go on.

A process that ends in the middle of a case, or does not end it in time, makes an ERROR of that case
and is replaced.
"""

import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from time import monotonic
from traceback import format_exc
from typing import Self

from opserve_client.conform.backend import LocalBackend
from opserve_client.conform.record import Header, Result
from opserve_client.conform.targets.device import Sessions, Terms
from opserve_client.conform.targets.named import Access, target_named
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.conform.trial import LocalTrial
from opserve_client.errors import OpserveError
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.expected import REFERENCE_RULES
from opserve_kernels.conformance.trial import unjudged
from opserve_kernels.verdict.judge_case import NO_STANDARDS, Standards
from opserve_kernels.verdict.verdict import Status

if sys.platform == "win32":
    from multiprocessing.connection import PipeConnection as Connection
else:
    from multiprocessing.connection import Connection

START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 10.0
_SPAWN = get_context("spawn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What every process is told.

    Attributes:
        header: Of the run.
        access: The service that expected values come from.
        timeout_s: Seconds that a case may take, expected values and judging included.
        standards: Told besides.
    """

    header: Header
    access: Access
    timeout_s: float
    standards: Standards = NO_STANDARDS


def make_trial(setup: Setup) -> LocalTrial:
    """What a process tries cases with.

    Raises:
        InfrastructureError: There is no such target.
    """
    header = setup.header
    terms = Terms(accuracy=header.accuracy, documented_rules=header.documented_rules)
    reference = Sessions(setup.access.client(), Terms(documented_rules=REFERENCE_RULES))
    return LocalTrial(
        header=header,
        target=target_named(header.target, setup.access, timeout_s=setup.timeout_s, terms=terms),
        backend=LocalBackend(reference),
        standards=setup.standards,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failed:
    """What a process could not do."""

    message: str


@dataclass(slots=True, kw_only=True)
class _Worker:
    """A process and what it does.

    Attributes:
        process: It.
        connection: To it.
        deadline: When it must have answered, once it was told what to do; of monotonic().
        case: That it tries; None while it starts.
    """

    process: SpawnProcess
    connection: Connection
    deadline: float = inf
    case: Case | None = None


@dataclass(slots=True, kw_only=True)
class Workers:
    """Some processes; a context that starts them, and ends them all.

    They load what they need at once: meanwhile the service may start that they are told of later.

    Attributes:
        count: How many.
    """

    count: int
    _setup: Setup = field(init=False)
    _running: list[_Worker] = field(default_factory=list[_Worker])

    def __enter__(self) -> Self:
        """Starts them."""
        for _ in range(self.count):
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends them."""
        for worker in list(self._running):
            self._stop(worker)

    def results(self, cases: Sequence[Case], setup: Setup) -> Iterator[Result]:
        """Of every case, as they come; asked for once.

        Raises:
            InfrastructureError: Nothing can be said of a case; those before it are told.
        """
        self._setup = setup
        left = deque(cases)
        for worker in self._running:
            self._tell(worker)
        while left or any(worker.case for worker in self._running):
            yield from self._next(left)

    def _next(self, left: deque[Case]) -> Iterator[Result]:
        """What comes next, a time-out at the latest."""
        until = min(worker.deadline for worker in self._running) - monotonic()
        ready = wait([worker.connection for worker in self._running], max(0.0, until))
        for worker in list(self._running):
            if worker.connection in ready:
                yield from self._heard(worker, left)
            elif worker.deadline <= monotonic():
                yield self._lost(worker, f"no answer within {self._setup.timeout_s:g} s")
                self._replace(left)

    def _heard(self, worker: _Worker, left: deque[Case]) -> Iterator[Result]:
        try:
            answer: object = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(_STOP_TIMEOUT_S)
            yield self._lost(worker, f"its process ended with {worker.process.exitcode}")
            self._replace(left)
            return
        if isinstance(answer, _Failed):
            raise InfrastructureError(answer.message)
        if isinstance(answer, Result):
            yield answer
        worker.case = left.popleft() if left else None
        if worker.case is None:
            self._stop(worker)
        else:
            worker.deadline = monotonic() + self._setup.timeout_s
            worker.connection.send(worker.case)

    def _lost(self, worker: _Worker, reason: str) -> Result:
        """The verdict on a case that took its process along."""
        case = worker.case
        self._stop(worker)
        if case is None:
            raise InfrastructureError(f"a process that tries cases did not start: {reason}")
        contract = self._setup.header.contracts[case.operator]
        return Result(case=case, verdict=unjudged(case, contract, Status.ERROR, reason))

    def _replace(self, left: deque[Case]) -> None:
        if left:
            self._tell(self._start())

    def _start(self) -> _Worker:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_work, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process=process, connection=ours)
        self._running.append(worker)
        return worker

    def _tell(self, worker: _Worker) -> None:
        worker.deadline = monotonic() + START_TIMEOUT_S
        with suppress(BrokenPipeError):  # it has ended, which is heard next
            worker.connection.send(self._setup)

    def _stop(self, worker: _Worker) -> None:
        """At once where it is at work; else once it has closed its sessions."""
        self._running.remove(worker)
        worker.connection.close()
        if worker.case is not None:
            worker.process.kill()
        worker.process.join(_STOP_TIMEOUT_S)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.process.close()


def _work(connection: Connection) -> None:
    """A process: what it is told and cases in, results out, until the other side closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other side decides when it ends
    try:
        trial = make_trial(connection.recv())
    except EOFError:  # nobody needs it any more
        return
    except (InfrastructureError, OpserveError) as error:
        connection.send(_Failed(message=str(error)))
        return
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        connection.send(None)
        while True:
            connection.send(_tried(trial, connection.recv()))
    with suppress(OpserveError):
        trial.close()


def _tried(trial: LocalTrial, case: Case) -> Result | _Failed:
    try:
        return trial.run(case)
    except InfrastructureError as error:
        return _Failed(message=str(error))
    except Exception:  # noqa: BLE001  the other process must hear of it
        return _Failed(message=f"{case.id}: {format_exc()}")
