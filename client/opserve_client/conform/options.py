"""What a run is asked for, and the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from opserve_client.cli_connection import Ways
from opserve_client.conform.history import check_history, outcomes_at, send_or_keep
from opserve_client.conform.known import expectations, read_known
from opserve_client.conform.record import Header, RunRecord
from opserve_client.conform.report.file import write_report
from opserve_client.conform.run import run_cases
from opserve_client.conform.selection import chosen, digest_of, suite_named
from opserve_client.conform.service import contracts_of, service
from opserve_client.conform.show import progress, show_interrupted, show_start, show_summary
from opserve_client.conform.summary import Summary
from opserve_client.conform.targets.device import Terms
from opserve_client.conform.targets.named import ITSELF, PLAIN_TERMS, Access, check_target
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.conform.workers import Setup, Workers
from opserve_client.conform.writers.badge import badge
from opserve_client.conform.writers.github import write_step
from opserve_client.conform.writers.junit import write_junit
from opserve_client.conform.writers.metrics import metrics
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.suite import Suite
from opserve_kernels.conformance.comparison import Outcomes, compare
from opserve_kernels.conformance.selection import Wanted
from opserve_kernels.verdict.judge_case import NO_STANDARDS, Standards


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How cases are tried.

    Attributes:
        jobs: Processes that try them.
        repeats: Equal calls.
        timeout_s: Seconds that a case may take.
    """

    jobs: int = 2
    repeats: int = 1
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Where the record stays.

    Attributes:
        folder: Where it goes; None means nowhere.
        resume: Whether the one there is gone on with.
        history: What the service's history calls the target; "" leaves the run out of it.
    """

    folder: Path | None = None
    resume: bool = False
    history: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What is known of the target before.

    Attributes:
        known_failures: A file of them.
        baseline: An earlier run, history.PLACES; "" means none.
    """

    known_failures: Path | None = None
    baseline: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Files that the run is told in.

    Attributes:
        junit: JUnit's XML.
        report: HTML.
        metrics: OpenMetrics.
        badge: For shields.io.
    """

    junit: Path | None = None
    report: Path | None = None
    metrics: Path | None = None
    badge: Path | None = None


_TWO, _NOWHERE, _NOTHING, _NO_FILES = Effort(), Kept(), Expected(), Files()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run is asked for; the options of `opserve conform run`.

    Attributes:
        suite: Name or file.
        target: What is tried.
        wanted: Of the suite.
        seed: None means 0, or the file's.
        server: Address of the service for expected values; "" starts one.
        effort: How cases are tried.
        standards: Told besides.
        kept: Where the record stays.
        expected: What is known before.
        terms: Of the sessions on a device that is tried.
    """

    suite: str
    target: str
    wanted: Wanted
    seed: int | None = None
    server: str = ""
    effort: Effort = _TWO
    standards: Standards = NO_STANDARDS
    kept: Kept = _NOWHERE
    expected: Expected = _NOTHING
    terms: Terms = PLAIN_TERMS


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Where the summary goes besides the terminal.

    Attributes:
        files: Into these.
        json: To standard output, in JSON.
        github: Into the step of a GitHub workflow.
    """

    files: Files = _NO_FILES
    json: bool = False
    github: bool = False


def perform(options: Options, outputs: Outputs, ways: Ways) -> int:
    """Runs, tells and writes; returns the exit status.

    Raises:
        InfrastructureError: Nothing can be said.
    """
    access = Access(address=options.server, ways=ways)
    place, target = options.expected.baseline, options.kept.history
    baseline = outcomes_at(place, access) if place else None
    if target:
        check_history(target, access)
    summary = _summary(options, baseline, ways)
    show_summary(summary, as_json=outputs.json)
    _write_files(summary, outputs.files, baseline)
    if outputs.github:
        write_step(summary)
    if target:
        send_or_keep(summary.record, target, access, options.kept.folder)
    return summary.exit_code


def _write_files(summary: Summary, files: Files, baseline: Outcomes | None) -> None:
    if files.junit is not None:
        write_junit(summary, files.junit)
    if files.report is not None:
        expected = summary.expectations
        write_report(summary.record, files.report, baseline=baseline, expected=expected)
    if files.metrics is not None:
        files.metrics.write_text(metrics(summary.record), encoding="utf-8")
    if files.badge is not None:
        files.badge.write_text(badge(summary.record), encoding="utf-8")


def _summary(options: Options, baseline: Outcomes | None, ways: Ways) -> Summary:
    """What can be read is read before the first case is tried."""
    place = options.expected.known_failures
    known = () if place is None else read_known(place)
    suite = suite_named(options.suite, options.seed)
    cases = chosen(suite, options.wanted)
    record = tried(options, suite, cases, ways)
    comparison = None if baseline is None else compare(baseline, record.outcomes)
    return Summary(record=record, expectations=expectations(record, known), comparison=comparison)


def tried(options: Options, suite: Suite, cases: Sequence[Case], ways: Ways) -> RunRecord:
    """Tries cases of a suite, against a service that is given or started.

    Raises:
        InfrastructureError: Nothing can be said of one of them.
    """
    check_target(options.target, options.effort.timeout_s)
    if options.kept.resume and options.kept.folder is None:
        raise InfrastructureError("resume: given no folder of a run, allowed with --folder")
    profiles = {case.profile for case in cases} if options.target == ITSELF else set[str]()
    if not options.server:
        show_start()
    with (
        Workers(count=min(options.effort.jobs, len(cases))) as workers,
        service(options.server, profiles, ways) as access,
    ):
        setup = _setup(options, suite, cases, access)
        try:
            with progress(len(cases)) as told:
                return run_cases(
                    cases,
                    setup,
                    workers=workers,
                    folder=options.kept.folder,
                    resume=options.kept.resume,
                    told=told,
                )
        except KeyboardInterrupt:
            show_interrupted(options.kept.folder)
            raise


def header_of(
    suite: Suite,
    cases: Sequence[Case],
    *,
    target: str,
    contracts: Mapping[str, str],
    terms: Terms,
) -> Header:
    """What a run is made with.

    Args:
        suite: The whole one.
        cases: Those of it that are chosen.
        target: What is tried.
        contracts: Revisions of the operators' contracts.
        terms: Of the sessions.
    """
    return Header(
        tool=version("opserve"),
        suite=suite.name,
        digest=suite.digest,
        cases=len(cases),
        chosen=digest_of(cases),
        seed=suite.seed,
        target=target,
        contracts={name: contracts[name] for name in sorted({case.operator for case in cases})},
        accuracy=terms.accuracy,
        documented_rules=terms.documented_rules,
    )


def _setup(options: Options, suite: Suite, cases: Sequence[Case], access: Access) -> Setup:
    contracts, terms = contracts_of(access), options.terms
    header = header_of(suite, cases, target=options.target, contracts=contracts, terms=terms)
    return Setup(
        header=replace(header, repeats=options.effort.repeats),
        access=access,
        timeout_s=options.effort.timeout_s,
        standards=options.standards,
    )
