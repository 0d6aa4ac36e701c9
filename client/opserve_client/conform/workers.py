"""Worker processes for conformance cases, which contain crashes of a target.

If a process ends during a case, or the case exceeds its time limit, the case has the status ERROR
and a new process replaces the old one.
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
from opserve_client.conform.show import show_waiting
from opserve_client.conform.targets.device import OnWait, SessionOptions, Sessions, silent
from opserve_client.conform.targets.named import Access, target_named
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.conform.trial import LocalTrial
from opserve_client.errors import OpserveError
from opserve_kernels.cases.arrays import Recorded, nothing_recorded
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
"""Time for imports, on a loaded machine too; a case has its own time limit."""
_STOP_TIMEOUT_S = 10.0
_SPAWN = get_context("spawn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The setup of every worker process.

    Attributes:
        header: Header of the run.
        access: Access to the service that computes expected values.
        timeout_s: Time limit of a case in seconds, with its expected values and verdict.
        standards: Standards to report beside the verdicts, and gates.
        recorded: Function that returns the recorded inputs of a case.
    """

    header: Header
    access: Access
    timeout_s: float
    standards: Standards = NO_STANDARDS
    recorded: Recorded = nothing_recorded


def make_trial(setup: Setup, on_wait: OnWait = silent) -> LocalTrial:
    """Returns the trial that runs and judges cases in a process.

    Args:
        setup: Setup of the process.
        on_wait: Called once for each wait for a service.

    Raises:
        InfrastructureError: There is no such target.
    """
    header = setup.header
    session_options = SessionOptions(
        accuracy=header.accuracy, documented_rules=header.documented_rules
    )
    reference_options = SessionOptions(documented_rules=REFERENCE_RULES)
    reference = Sessions(setup.access.client(), reference_options, on_wait=on_wait)
    return LocalTrial(
        header=header,
        target=target_named(
            header.target,
            setup.access,
            timeout_s=setup.timeout_s,
            session_options=session_options,
            on_wait=on_wait,
        ),
        backend=LocalBackend(reference),
        standards=setup.standards,
        recorded=setup.recorded,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failed:
    """The answer of a process that cannot continue."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """The report of a process that waits for a service, before its answer."""

    reason: str


@dataclass(slots=True, kw_only=True)
class _Worker:
    """A process and its work.

    Attributes:
        process: The process.
        connection: The pipe to it.
        deadline: Time of monotonic() by which it must answer; infinite before it has its setup.
        case: The running case; None while the process starts.
    """

    process: SpawnProcess
    connection: Connection
    deadline: float = inf
    case: Case | None = None


@dataclass(slots=True, kw_only=True)
class Workers:
    """Worker processes; a context manager that starts and ends them.

    The processes import their modules at once. Meanwhile the service of the setup may start, which
    they receive later.

    Attributes:
        count: Number of processes.
    """

    count: int
    _setup: Setup = field(init=False)
    _running: list[_Worker] = field(default_factory=list[_Worker])
    _has_waited: bool = False

    def __enter__(self) -> Self:
        """Starts the processes."""
        for _ in range(self.count):
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the processes."""
        for worker in list(self._running):
            self._stop(worker)

    def results(self, cases: Sequence[Case], setup: Setup) -> Iterator[Result]:
        """Yields the result of every case in order of completion; callable once.

        Raises:
            InfrastructureError: A case has no verdict; earlier results were yielded.
        """
        self._setup = setup
        left = deque(cases)
        for worker in self._running:
            self._send_setup(worker)
        while left or any(worker.case for worker in self._running):
            yield from self._next(left)

    def _next(self, left: deque[Case]) -> Iterator[Result]:
        """Waits for the next answer or deadline, and yields the results that it causes."""
        until = min(worker.deadline for worker in self._running) - monotonic()
        ready = wait([worker.connection for worker in self._running], max(0.0, until))
        for worker in list(self._running):
            if worker.connection in ready:
                yield from self._receive(worker, left)
            elif worker.deadline <= monotonic():
                yield self._give_up(worker, f"no answer within {self._setup.timeout_s:g} s")
                self._replace(left)

    def _receive(self, worker: _Worker, left: deque[Case]) -> Iterator[Result]:
        try:
            answer: object = worker.connection.recv()
        except (EOFError, OSError):
            # The pipe closes before the process ends: only the ended process has an exit code.
            worker.process.join(_STOP_TIMEOUT_S)
            yield self._give_up(worker, f"its process ended with {worker.process.exitcode}")
            self._replace(left)
            return
        if isinstance(answer, _Waiting):
            self._report_wait(answer)
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

    def _report_wait(self, waiting: _Waiting) -> None:
        """Reports the first wait: the other processes wait for the same service."""
        if not self._has_waited:
            show_waiting(waiting.reason)
        self._has_waited = True

    def _give_up(self, worker: _Worker, reason: str) -> Result:
        """Stops a process without an answer; returns the verdict ERROR on its case.

        A process that fails before its first case would fail again, so the run ends.
        """
        case = worker.case
        self._stop(worker)
        if case is None:
            raise InfrastructureError(f"a worker process did not start: {reason}")
        contract = self._setup.header.contracts[case.operator]
        return Result(case=case, verdict=unjudged(case, contract, Status.ERROR, reason))

    def _replace(self, left: deque[Case]) -> None:
        if left:
            self._send_setup(self._start())

    def _start(self) -> _Worker:
        connection, child_connection = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_worker_main, args=(child_connection,), daemon=True)
        process.start()
        # With this copy open, the pipe would stay open after the end of the process.
        child_connection.close()
        worker = _Worker(process=process, connection=connection)
        self._running.append(worker)
        return worker

    def _send_setup(self, worker: _Worker) -> None:
        worker.deadline = monotonic() + START_TIMEOUT_S
        with suppress(BrokenPipeError):  # the process has ended: _receive reports that next
            worker.connection.send(self._setup)

    def _stop(self, worker: _Worker) -> None:
        """Kills a process that runs a case; lets an idle one close its sessions first."""
        self._running.remove(worker)
        worker.connection.close()
        if worker.case is not None:
            worker.process.kill()
        worker.process.join(_STOP_TIMEOUT_S)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.process.close()


def _worker_main(connection: Connection) -> None:
    """Receives the setup, then cases, and sends results until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    try:
        trial = make_trial(
            connection.recv(), on_wait=lambda reason: connection.send(_Waiting(reason=reason))
        )
    except EOFError:  # the run ended before it began
        return
    except (InfrastructureError, OpserveError) as error:
        with suppress(BrokenPipeError):  # another process failed first, and the run has ended
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
    except Exception:  # noqa: BLE001  the parent must receive an answer
        return _Failed(message=f"{case.id}: {format_exc()}")
