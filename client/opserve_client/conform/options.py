"""What a run is asked for, and the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

from opserve_client.access import TlsFiles
from opserve_client.conform.compare import compare
from opserve_client.conform.github import write_step
from opserve_client.conform.judging import Standards
from opserve_client.conform.junit import write_junit
from opserve_client.conform.record import Header, read_record, record_path
from opserve_client.conform.run import run_cases
from opserve_client.conform.selection import Wanted, chosen, digest_of, suite_named
from opserve_client.conform.service import contracts_of, service
from opserve_client.conform.show import progress, show_summary
from opserve_client.conform.summary import Summary, read_known, summarise
from opserve_client.conform.targets.named import ITSELF, Access
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.conform.workers import Setup
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.suite import Suite
from opserve_kernels.verdict.vendor.grade import STANDARDS


class Ways(Protocol):
    """The program's options on the way to a service: cli_connection.Ways."""

    @property
    def tls(self) -> TlsFiles | None:
        """Files for TLS."""
        ...

    @property
    def allow_plaintext(self) -> bool:
        """Whether an API key may travel without TLS."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run is asked for; the options of `opserve conform run`.

    Attributes:
        suite: Name or file.
        target: What is tried.
        wanted: Of the suite.
        seed: None means 0, or the file's.
        server: Address of the service for golden values; "" starts one.
        jobs: Processes that try cases.
        repeats: Equal calls.
        timeout_s: Seconds that a case may take.
        standards: Told besides, the gates too.
        gates: Those that an output fails by.
        folder: Where the record goes.
        resume: Whether the record there is gone on with.
        known_failures: A file of them.
        baseline: Record of an earlier run.
    """

    suite: str
    target: str
    wanted: Wanted
    seed: int | None = None
    server: str = ""
    jobs: int = 2
    repeats: int = 1
    timeout_s: float = 60.0
    standards: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    folder: Path | None = None
    resume: bool = False
    known_failures: Path | None = None
    baseline: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Where the summary goes besides the terminal.

    Attributes:
        junit: An XML file.
        json: Standard output, in JSON.
        github: The step of a GitHub workflow.
    """

    junit: Path | None = None
    json: bool = False
    github: bool = False


def perform(options: Options, outputs: Outputs, ways: Ways) -> int:
    """Runs, tells and writes; returns the exit status.

    Raises:
        InfrastructureError: Nothing can be said.
    """
    summary = _summary(options, ways)
    show_summary(summary, as_json=outputs.json)
    if outputs.junit is not None:
        write_junit(summary, outputs.junit)
    if outputs.github:
        write_step(summary)
    return summary.exit_code


def _summary(options: Options, ways: Ways) -> Summary:
    """What can be read is read before the first case is tried."""
    if unknown := sorted(set(options.standards) - set(STANDARDS)):
        allowed = ", ".join(STANDARDS)
        raise InfrastructureError(f"standard: given {', '.join(unknown)}, allowed {allowed}")
    known = () if options.known_failures is None else read_known(options.known_failures)
    before = None if options.baseline is None else read_record(record_path(options.baseline))
    suite = suite_named(options.suite, options.seed)
    cases = chosen(suite, options.wanted)
    profiles = {case.profile for case in cases} if options.target == ITSELF else set[str]()
    with service(
        options.server, profiles, tls=ways.tls, allow_plaintext=ways.allow_plaintext
    ) as access:
        setup = _setup(options, suite, cases, access)
        with progress(len(cases)) as told:
            record = run_cases(
                cases,
                setup,
                jobs=options.jobs,
                folder=options.folder,
                resume=options.resume,
                told=told,
            )
    comparison = None if before is None else compare(before, record)
    return summarise(record, known=known, comparison=comparison)


def _setup(options: Options, suite: Suite, cases: Sequence[Case], access: Access) -> Setup:
    contracts = contracts_of(access)
    header = Header(
        tool=version("opserve"),
        suite=suite.name,
        digest=suite.digest,
        cases=len(cases),
        chosen=digest_of(cases),
        seed=suite.seed,
        target=options.target,
        contracts={name: contracts[name] for name in sorted({case.operator for case in cases})},
        repeats=options.repeats,
    )
    return Setup(
        header=header,
        access=access,
        timeout_s=options.timeout_s,
        standards=Standards(reported=options.standards, gates=options.gates),
    )
