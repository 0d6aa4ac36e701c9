"""Cases as tests of pytest."""

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
from opserve_client.conform.repro import told
from opserve_client.conform.selection import chosen, suite_named
from opserve_client.conform.service import contracts_of, service
from opserve_client.conform.targets.device import Terms
from opserve_client.conform.targets.named import ITSELF, Access
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
_INFRASTRUCTURE = 2  # status of a run that says nothing, as that of opserve conform
_TIMEOUT_S = 60.0  # of a program that is tried; pytest-timeout is for the others


class CaseFailed(Exception):
    """A case did not pass; the message is its verdict in words."""


@dataclass(slots=True, kw_only=True)
class Held:
    """What lasts as long as the run of pytest.

    Attributes:
        access: The service.
        client: Of it.
        terms: Of sessions.
        trial: What cases are tried with, once one is.
        header: Of the run, likewise.
        results: Of the cases so far, by id: whoever tries one again has the last.
    """

    access: Access
    client: Client
    terms: Terms
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
        """Passes, is skipped, or raises CaseFailed."""
        result = self._run(self.case)
        verdict = result.verdict
        for broken in result.warnings:
            warnings.warn(broken, stacklevel=1)
        if verdict.status not in GOOD:
            raise CaseFailed("\n".join(told(result)))
        if verdict.status is not Status.PASSED:
            pytest.skip(f"{verdict.status}: {verdict.reason}")

    @override
    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]
        """The verdict instead of a traceback."""
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    @override
    def reportinfo(self) -> tuple[Path, None, str]:
        """What a failure is headed with."""
        return self.path, None, f"conformance {self.nodeid}"


def case_items(session: pytest.Session, held: Callable[[], Held]) -> list[CaseItem]:
    """A test for each case that the options want."""
    config = session.config
    patterns: list[str] = config.getoption("--opserve-match") or []
    try:
        suite = suite_named(_given(config, "suite"), config.getoption("--opserve-seed"))
        cases = chosen(suite, Wanted(patterns=tuple(patterns)))
    except (InfrastructureError, InvalidArgument) as error:
        raise pytest.UsageError(str(error)) from error
    target = _given(config, "target")

    def run(case: Case) -> Result:
        here = held()
        if here.trial is None:
            _begin(here, suite, cases, target)
        assert here.trial is not None
        result = here.trial.run(case)
        here.results[case.id] = result
        return result

    return [
        CaseItem.from_parent(  # pyright: ignore[reportUnknownMemberType]  # as pytest has it
            session, name=case.id, nodeid=f"{suite.name}::{case.id}", case=case, run=run
        )
        for case in cases
    ]


@contextmanager
def held(session: pytest.Session) -> Generator[Held]:
    """The service, until the run of pytest ends; one that is started has the devices it needs."""
    with (
        service(_given(session.config, "server"), _profiles(session)) as access,
        access.client() as client,
    ):
        target = _given(session.config, "history")
        if target:
            _check_history(target, access)
        here = Held(access=access, client=client, terms=_terms(session.config))
        yield here
        if here.trial is not None:
            here.trial.close()


def _check_history(target: str, access: Access) -> None:
    try:
        check_history(target, access)
    except OpserveError as error:
        pytest.exit(f"history: {error}", returncode=_INFRASTRUCTURE)


def _profiles(session: pytest.Session) -> Collection[str] | None:
    """That a device is needed of besides `reference`; None means all: a test asks for sessions."""
    functions = [item for item in session.items if isinstance(item, pytest.Function)]
    if any(SESSION_FIXTURE in function.fixturenames for function in functions):
        return None
    is_tried = _given(session.config, "target") == ITSELF
    cases = [item.case for item in session.items if isinstance(item, CaseItem)]
    return {case.profile for case in cases} if is_tried else ()


def _terms(config: pytest.Config) -> Terms:
    return Terms(
        accuracy=ACCURACIES[_given(config, "accuracy")],
        documented_rules=DOCUMENTED_RULES[_given(config, "documented-rules")],
    )


def _given(config: pytest.Config, option: str) -> str:
    return str(config.getoption(f"--opserve-{option}") or "")


def report(here: Held, target: str) -> None:
    """Adds what was judged to the history of the service; ends pytest with 2 where that fails."""
    if here.header is None:
        return
    record = RunRecord(header=here.header, results=tuple(here.results.values()))
    try:
        send_or_keep(record, target, here.access, None)
    except InfrastructureError as error:
        pytest.exit(str(error), returncode=_INFRASTRUCTURE)


def _begin(here: Held, suite: Suite, cases: Sequence[Case], target: str) -> None:
    contracts = contracts_of(here.access)
    header = header_of(suite, cases, target=target, contracts=contracts, terms=here.terms)
    here.trial = make_trial(Setup(header=header, access=here.access, timeout_s=_TIMEOUT_S))
    here.header = header
