"""A run of `opserve conform`: its options, the run, and its outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from opserve_client.cli_connection import ConnectionOptions
from opserve_client.conform.history import check_history, outcomes_at, send_or_keep
from opserve_client.conform.known import expectations, read_known
from opserve_client.conform.record import RECORD_NAME, Header, RunRecord
from opserve_client.conform.report.file import write_report
from opserve_client.conform.run import run_cases
from opserve_client.conform.selection import chosen, digest_of, suite_named
from opserve_client.conform.service import contracts_of, service
from opserve_client.conform.show import progress, show_interrupted, show_start, show_summary
from opserve_client.conform.summary import Summary
from opserve_client.conform.targets.device import SessionOptions
from opserve_client.conform.targets.named import (
    DEFAULT_OPTIONS,
    SERVICE_UNDER_TEST,
    Access,
    check_target,
    kernel_variant_of,
)
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.conform.workers import Setup, Workers
from opserve_client.conform.writers.badge import badge
from opserve_client.conform.writers.github import write_step
from opserve_client.conform.writers.junit import write_junit
from opserve_client.conform.writers.metrics import metrics
from opserve_client.file_errors import check_writable
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.suite import Suite
from opserve_kernels.conformance.comparison import Outcomes, compare
from opserve_kernels.conformance.selection import Wanted
from opserve_kernels.verdict.judge_case import NO_STANDARDS, Standards


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Execution of cases.

    Attributes:
        jobs: Number of processes that run cases.
        repeats: Calls of each case.
        timeout_s: Time limit of a case in seconds.
    """

    jobs: int = 2
    repeats: int = 1
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """Storage of the run's record.

    Attributes:
        folder: Folder of the record; None means none.
        resume: Whether to continue the record in the folder.
        history: Name of the target in the service's history; "" adds the run to no history.
    """

    folder: Path | None = None
    resume: bool = False
    history: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorResults:
    """Results that the run is compared with.

    Attributes:
        known_failures: File of known failures.
        baseline: An earlier run, history.PLACES; "" means none.
    """

    known_failures: Path | None = None
    baseline: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Output files of a run; None writes none.

    Attributes:
        junit: JUnit XML.
        report: HTML report.
        metrics: OpenMetrics text.
        badge: JSON for shields.io.
    """

    junit: Path | None = None
    report: Path | None = None
    metrics: Path | None = None
    badge: Path | None = None


_EXECUTION, _NO_RECORD, _NO_PRIOR_RESULTS, _NO_FILES = (
    Execution(),
    RecordOptions(),
    PriorResults(),
    Files(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a run, as of `opserve conform run`.

    Attributes:
        suite: Name or file of the suite.
        target: Name of the target.
        wanted: Selection of the suite's cases.
        seed: Seed of the inputs; None means 0, or the seed in the file.
        server: Address of the service for expected values; "" starts one.
        execution: Execution of the cases.
        standards: Standards to report beside the verdicts, and gates.
        record_options: Storage of the record.
        prior: Results that the run is compared with.
        session_options: Options of the sessions on a tested device.
    """

    suite: str
    target: str
    wanted: Wanted
    seed: int | None = None
    server: str = ""
    execution: Execution = _EXECUTION
    standards: Standards = NO_STANDARDS
    record_options: RecordOptions = _NO_RECORD
    prior: PriorResults = _NO_PRIOR_RESULTS
    session_options: SessionOptions = DEFAULT_OPTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Outputs of a run beside the summary on the terminal.

    Attributes:
        files: Output files.
        json: Whether the summary on standard output is JSON.
        github: Whether to write annotations and the summary of a GitHub workflow's step.
    """

    files: Files = _NO_FILES
    json: bool = False
    github: bool = False


def run_and_report(options: Options, outputs: Outputs, connection: ConnectionOptions) -> int:
    """Runs the cases, shows the summary and writes the outputs; returns the exit status.

    Raises:
        InfrastructureError: There is no verdict, because a service or file failed.
        OSError: An output cannot be written.
    """
    access = Access(address=options.server, connection=connection)
    place, target = options.prior.baseline, options.record_options.history
    baseline = outcomes_at(place, access) if place else None
    if target:
        check_history(target, access)
    summary = _summary(options, outputs.files, baseline, connection)
    show_summary(summary, as_json=outputs.json)
    _write_files(summary, outputs.files, baseline)
    if outputs.github:
        write_step(summary, on_stderr=outputs.json)
    if target:
        send_or_keep(summary.record, target, access, options.record_options.folder)
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


def _summary(
    options: Options, files: Files, baseline: Outcomes | None, connection: ConnectionOptions
) -> Summary:
    """Checks all files before the first case runs, so that a wrong option fails at once."""
    place = options.prior.known_failures
    known = () if place is None else read_known(place)
    suite = suite_named(options.suite, options.seed)
    cases = chosen(suite, options.wanted)
    _check_places(options.record_options.folder, files)
    record = run_suite(options, suite, cases, connection)
    comparison = None if baseline is None else compare(baseline, record.outcomes)
    return Summary(record=record, expectations=expectations(record, known), comparison=comparison)


def _check_places(folder: Path | None, files: Files) -> None:
    """Checks that the outputs can be written; makes the folder of the record, which may have some.

    Raises:
        OSError: One cannot be written.
    """
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder / RECORD_NAME)
    for path in (files.junit, files.report, files.metrics, files.badge):
        if path is not None:
            check_writable(path)


def run_suite(
    options: Options, suite: Suite, cases: Sequence[Case], connection: ConnectionOptions
) -> RunRecord:
    """Runs cases of a suite with a given service, or with one that is started for the run.

    The worker processes start first: they import their modules while the service starts.

    Raises:
        InfrastructureError: A case has no verdict, because a service, file or process failed.
    """
    check_target(options.target, options.execution.timeout_s)
    if options.record_options.resume and options.record_options.folder is None:
        raise InfrastructureError("--resume needs the folder of a run: give --folder too.")
    profiles = (
        {case.profile for case in cases} if options.target == SERVICE_UNDER_TEST else set[str]()
    )
    if not options.server:
        show_start()
    with (
        Workers(count=min(options.execution.jobs, len(cases))) as workers,
        service(options.server, profiles, connection) as access,
    ):
        setup = _setup(options, suite, cases, access)
        try:
            with progress(len(cases)) as advance:
                return run_cases(
                    cases,
                    setup,
                    workers=workers,
                    folder=options.record_options.folder,
                    resume=options.record_options.resume,
                    on_result=advance,
                )
        except KeyboardInterrupt:
            show_interrupted(options.record_options.folder)
            raise


def header_of(
    suite: Suite,
    cases: Sequence[Case],
    *,
    target: str,
    contracts: Mapping[str, str],
    session_options: SessionOptions,
) -> Header:
    """Returns the header of a run's record.

    Args:
        suite: The whole suite.
        cases: The selected cases.
        target: Name of the target.
        contracts: Revisions of the operators' contracts.
        session_options: Options of the sessions.
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
        accuracy=session_options.accuracy,
        documented_rules=session_options.documented_rules,
    )


def _setup(options: Options, suite: Suite, cases: Sequence[Case], access: Access) -> Setup:
    contracts, session_options = contracts_of(access), options.session_options
    header = header_of(
        suite, cases, target=options.target, contracts=contracts, session_options=session_options
    )
    variant = kernel_variant_of(options.target, access, {case.profile for case in cases})
    return Setup(
        header=replace(header, repeats=options.execution.repeats, kernel_variant=variant),
        access=access,
        timeout_s=options.execution.timeout_s,
        standards=options.standards,
        recorded=suite.recorded,
    )
