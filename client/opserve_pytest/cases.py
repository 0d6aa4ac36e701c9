"""Conformance cases as tests of pytest."""

import warnings
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typing_extensions import override

from opserve_client import Client
from opserve_client.arguments import ACCURACIES, DOCUMENTED_RULES
from opserve_client.conform.history import check_history, send_or_keep
from opserve_client.conform.options import header_of
from opserve_client.conform.record import Header, Result, RunRecord
from opserve_client.conform.repro import report_lines
from opserve_client.conform.selection import chosen, suite_named
from opserve_client.conform.service import contracts_of, service
from opserve_client.conform.targets.device import SessionOptions
from opserve_client.conform.targets.named import SERVICE_UNDER_TEST, Access, check_target
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.conform.trial import LocalTrial
from opserve_client.conform.workers import Setup, make_trial
from opserve_client.errors import OpserveError
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.suite import Suite
from opserve_kernels.conformance.selection import Wanted
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.verdict.verdict import GOOD, Status

SESSION_FIXTURE = "opserve_session"
_INFRASTRUCTURE = 2  # exit status of a run without a verdict, as of opserve conform
_TIMEOUT_S = 60.0  # of a tested program; pytest-timeout limits other targets


class CaseFailed(Exception):
    """A case that did not pass; the message has the details of its verdict."""


@dataclass(slots=True, kw_only=True)
class RunState:
    """The state of a run of pytest.

    Attributes:
        access: Access to the service.
        client: Client of the service.
        session_options: Options of sessions.
        trial: Trial of cases; None before the first case.
        header: Header of the run; None before the first case.
        results: Results so far by the case's id; a repeated case replaces its result.
    """

    access: Access
    client: Client
    session_options: SessionOptions
    trial: LocalTrial | None = None
    header: Header | None = None
    results: dict[str, Result] = field(default_factory=dict[str, Result])


class CaseItem(pytest.Item):
    """A case as a test."""

    def __init__(self, *, case: Case, run: Callable[[Case], Result], **about: object) -> None:
        super().__init__(**about)  # type: ignore[arg-type]  # pytest's own
        self.case, self._run = case, run

    @override
    def runtest(self) -> None:
        """Runs the case: passes, is skipped, or raises CaseFailed."""
        result = self._run(self.case)
        verdict = result.verdict
        for broken in result.warnings:
            warnings.warn(broken, stacklevel=1)
        if verdict.status not in GOOD:
            raise CaseFailed("\n".join(report_lines(result)))
        if verdict.status is not Status.PASSED:
            pytest.skip(f"{verdict.status}: {verdict.reason}")

    @override
    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]
        """Returns the verdict in place of a traceback."""
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    @override
    def reportinfo(self) -> tuple[Path, None, str]:
        """Returns the heading of a failure."""
        return self.path, None, f"conformance {self.nodeid}"


def case_items(session: pytest.Session, state: Callable[[], RunState]) -> list[CaseItem]:
    """Returns a test for each case that the options select."""
    config = session.config
    target = _given(config, "target")
    try:
        suite = suite_named(_given(config, "suite"), config.getoption("--opserve-seed"))
        cases = chosen(suite, _wanted(config))
        if not _is_worker(config):
            check_target(target, _TIMEOUT_S)
    except (InfrastructureError, InvalidArgument) as error:
        raise pytest.UsageError(_one_line(error)) from error

    def run(case: Case) -> Result:
        current = state()
        with ending_run(config):
            if current.trial is None:
                _begin(current, suite, cases, target)
            assert current.trial is not None
            result = current.trial.run(case)
        current.results[case.id] = result
        return result

    return [
        CaseItem.from_parent(  # pyright: ignore[reportUnknownMemberType]  # as pytest has it
            session, name=case.id, nodeid=f"{suite.name}::{case.id}", case=case, run=run
        )
        for case in cases
    ]


@contextmanager
def ending_run(config: pytest.Config) -> Generator[None]:
    """Ends pytest with one sentence where a service, a file or an option failed, not a kernel.

    A worker of pytest-xdist fails the test with the sentence: the reason of its end is not shown.
    """
    try:
        yield
    except (InfrastructureError, InvalidArgument, OpserveError) as error:
        sentence = f"opserve: {_one_line(error)}"
        if _is_worker(config):
            pytest.fail(sentence, pytrace=False)
        pytest.exit(sentence, returncode=_INFRASTRUCTURE)


@contextmanager
def run_state(session: pytest.Session) -> Generator[RunState]:
    """Yields the state of the run; a service that is started has the devices that the run needs."""
    with (
        service(_given(session.config, "server"), _profiles(session)) as access,
        access.client() as client,
    ):
        _check_service(client, access)
        target = _given(session.config, "history")
        if target:
            _check_history(target, access)
        options = _session_options(session.config)
        state = RunState(access=access, client=client, session_options=options)
        yield state
        if state.trial is not None:
            state.trial.close()


def _check_service(client: Client, access: Access) -> None:
    """Calls the service once, so that an unreachable one is no failure of each test."""
    try:
        client.get_version()
    except OpserveError as error:
        raise InfrastructureError(f"{access.address}: {error}") from error


def _check_history(target: str, access: Access) -> None:
    try:
        check_history(target, access)
    except OpserveError as error:
        pytest.exit(f"history: {error}", returncode=_INFRASTRUCTURE)


def _profiles(session: pytest.Session) -> Collection[str] | None:
    """Returns the profiles of the devices that a run needs besides `reference`.

    None means all: a test with the session fixture may open a session of any profile.
    """
    functions = [item for item in session.items if isinstance(item, pytest.Function)]
    if any(SESSION_FIXTURE in function.fixturenames for function in functions):
        return None
    is_tried = _given(session.config, "target") == SERVICE_UNDER_TEST
    cases = [item.case for item in session.items if isinstance(item, CaseItem)]
    return {case.profile for case in cases} if is_tried else ()


def _session_options(config: pytest.Config) -> SessionOptions:
    return SessionOptions(
        accuracy=ACCURACIES[_given(config, "accuracy")],
        documented_rules=DOCUMENTED_RULES[_given(config, "documented-rules")],
    )


def _is_worker(config: pytest.Config) -> bool:
    """Returns whether this process runs tests for pytest-xdist."""
    return hasattr(config, "workerinput")


def _wanted(config: pytest.Config) -> Wanted:
    operators: list[str] = config.getoption("--opserve-operator") or []
    patterns: list[str] = config.getoption("--opserve-match") or []
    return Wanted(operators=tuple(operators), patterns=tuple(patterns))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _given(config: pytest.Config, option: str) -> str:
    return str(config.getoption(f"--opserve-{option}") or "")


def report(state: RunState, target: str) -> None:
    """Adds the results to the history of the service; if that fails, ends pytest with 2."""
    if state.header is None:
        return
    record = RunRecord(header=state.header, results=tuple(state.results.values()))
    try:
        send_or_keep(record, target, state.access, None)
    except InfrastructureError as error:
        pytest.exit(str(error), returncode=_INFRASTRUCTURE)


def _begin(state: RunState, suite: Suite, cases: Sequence[Case], target: str) -> None:
    contracts = contracts_of(state.access)
    header = header_of(
        suite, cases, target=target, contracts=contracts, session_options=state.session_options
    )
    setup = Setup(header=header, access=state.access, timeout_s=_TIMEOUT_S, recorded=suite.recorded)
    state.trial = make_trial(setup)
    state.header = header
