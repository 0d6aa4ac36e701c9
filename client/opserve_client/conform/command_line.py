"""The command `opserve conform`: run | verify | cases | compare | repro.

For the history of a service: send | runs | baseline | forget.

Exit status: 0, all judged cases pass; 1, a case fails; 2, no verdict, because of an invalid option,
an unreachable service or an unreadable file.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from opserve_client.cli_connection import (
    Accuracy,
    ConnectedGroup,
    ConnectionOptions,
    DocumentedRules,
)
from opserve_client.cli_rows import AsCsv, AsJson, show, show_json
from opserve_client.conform.history import COLUMNS, PLACES, outcomes_at, run_in, runs_on, send
from opserve_client.conform.options import (
    Execution,
    Files,
    Options,
    Outputs,
    PriorResults,
    RecordOptions,
    run_and_report,
    run_suite,
)
from opserve_client.conform.record import RecordError, read_record, record_path, result_form
from opserve_client.conform.repro import SEARCHED, case_named, report_lines, snippet_of
from opserve_client.conform.selection import chosen, suite_named
from opserve_client.conform.show import show_comparison
from opserve_client.conform.targets.arrays_files import write_case
from opserve_client.conform.targets.device import SessionOptions
from opserve_client.conform.targets.named import FORMS, SERVICE_UNDER_TEST, Access
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.errors import OpserveError
from opserve_client.file_errors import check_writable, sentence_of
from opserve_kernels.cases.suite import write_suite
from opserve_kernels.conformance.comparison import compare
from opserve_kernels.conformance.selection import Wanted
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.status import ExitStatus
from opserve_kernels.verdict.judge_case import standards_of
from opserve_kernels.verdict.vendor.grade import STANDARDS
from opserve_kernels.verdict.verdict import GOOD

app = typer.Typer(
    cls=ConnectedGroup,
    help="Run kernels on conformance cases and judge the results.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

SuiteName = Annotated[
    str,
    typer.Option(
        "--suite",
        help="Suite of cases: smoke, standard, exhaustive, a file of definitions, benchdnn:FILE, "
        "miopen:FILE, onnx:FOLDER or msprobe:FOLDER.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        help="Seed of the random inputs, 0 to 2^63 - 1; equal seeds draw equal inputs. Default: 0, "
        "or the seed in the suite's file."
    ),
]
Operators = Annotated[
    list[str] | None,
    typer.Option("--operator", help="Run only cases of this operator; repeat for several."),
]
Patterns = Annotated[
    list[str] | None,
    typer.Option(
        "--match",
        help="Run only cases whose id, source or tag matches this pattern (*, ?); repeat for "
        "several.",
    ),
]
Server = Annotated[
    str,
    typer.Option(
        help="Address of the service that computes expected values: HOST:PORT for gRPC, "
        "http://HOST:PORT for Connect; grpcs:// or https:// for TLS. It needs a device with the "
        "profile reference. Default: the command starts a service, which ends with it."
    ),
]
OfHistory = Annotated[
    str,
    typer.Option(
        "--server",
        help="Address of the service with the history: HOST:PORT for gRPC, http://HOST:PORT for "
        "Connect; grpcs:// or https:// for TLS. No default; runs in folders need no service.",
    ),
]
TargetName = Annotated[str, typer.Option("--target", help=f"Implementation to test: {FORMS}.")]
Jobs = Annotated[int, typer.Option(min=1, help="Number of processes that run cases.")]
Repeats = Annotated[
    int, typer.Option(min=1, help="Calls of each case; their results must be equal bit by bit.")
]
Timeout = Annotated[float, typer.Option(min=0.1, help="Time limit of a case, in seconds.")]
Folder = Annotated[Path | None, typer.Option(help="Folder for the record of the run.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue the run whose record is in --folder.")
]
KnownFailures = Annotated[
    Path | None,
    typer.Option(help="File of cases that may fail: on each line a pattern, # and the reason."),
]
Baseline = Annotated[
    str,
    typer.Option(
        help=f"Earlier run: only cases that are worse than there fail this run; {PLACES}."
    ),
]
History = Annotated[
    str,
    typer.Option(help="Add the run to the history of --server, under this name of the target."),
]
Place = Annotated[str, typer.Argument(help=f"A run: {PLACES}.")]
Junit = Annotated[Path | None, typer.Option(help="Write the results to this JUnit XML file.")]
Report = Annotated[Path | None, typer.Option(help="Write the report to this HTML file.")]
Metrics = Annotated[
    Path | None, typer.Option(help="Write the counts to this OpenMetrics text file.")
]
Badge = Annotated[
    Path | None, typer.Option(help="Write a badge to this JSON file, for shields.io.")
]
Github = Annotated[
    bool,
    typer.Option("--github", help="Write annotations and the step summary of GitHub Actions."),
]
Reported = Annotated[
    list[str] | None,
    typer.Option(
        "--standard",
        help="Also report whether each output meets this standard; repeat for several. Default: "
        f"none. Standards: {', '.join(STANDARDS)}.",
    ),
]
Gates = Annotated[
    list[str] | None,
    typer.Option(
        "--gate",
        help="Fail each output that does not meet this standard, one of those of --standard; "
        "repeat for several. A standard without numbers for an output fails nothing. Default: "
        "none, so that the layers of the verdict decide alone.",
    ),
]
Snippet = Annotated[
    Path | None,
    typer.Option(
        help="Write a Python program that runs the case to this file. It needs opserve's "
        "client, but no service."
    ),
]


def main(arguments: Sequence[str], context: ConnectionOptions) -> None:
    """Runs the command line; exits with its status.

    Args:
        arguments: Arguments after "conform".
        context: Connection options before "conform".
    """
    try:
        app(args=list(arguments), prog_name="opserve conform", obj=context)
    except (InfrastructureError, InvalidArgument, OpserveError, RecordError, OSError) as error:
        text = sentence_of(error) if isinstance(error, OSError) else str(error)
        one_line = " ".join(text.split())
        sys.stderr.write(f"opserve conform: {one_line}\n")
        sys.exit(ExitStatus.UNUSABLE)


@app.command()
def run(  # noqa: PLR0913  options of the command
    context: typer.Context,
    *,
    suite: SuiteName = "standard",
    seed: Seed = None,
    operator: Operators = None,
    match: Patterns = None,
    target: TargetName = SERVICE_UNDER_TEST,
    accuracy: Accuracy = "direct",
    documented_rules: DocumentedRules = "error",
    server: Server = "",
    jobs: Jobs = 2,
    repeats: Repeats = 1,
    timeout: Timeout = 60.0,
    folder: Folder = None,
    resume: Resume = False,
    known_failures: KnownFailures = None,
    baseline: Baseline = "",
    history: History = "",
    standard: Reported = None,
    gate: Gates = None,
    junit: Junit = None,
    report: Report = None,
    metrics: Metrics = None,
    badge: Badge = None,
    as_json: AsJson = False,
    github: Github = False,
) -> None:
    """Run a target on the cases of a suite and judge the results."""
    wanted = wanted_of(operator, match)
    options = replace(
        Options(suite=suite, seed=seed, wanted=wanted, target=target, server=server),
        execution=Execution(jobs=jobs, repeats=repeats, timeout_s=timeout),
        standards=standards_of(standard or (), gate or ()),
        record_options=RecordOptions(folder=folder, resume=resume, history=history),
        prior=PriorResults(known_failures=known_failures, baseline=baseline),
        session_options=SessionOptions(accuracy=accuracy, documented_rules=documented_rules),
    )
    files = Files(junit=junit, report=report, metrics=metrics, badge=badge)
    outputs = Outputs(files=files, json=as_json, github=github)
    raise typer.Exit(run_and_report(options, outputs, context.obj))


@app.command()
def verify(  # noqa: PLR0913  options of the command
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(help="Folder with the outputs of each case in a file ID.npz.")
    ],
    *,
    suite: SuiteName = "standard",
    seed: Seed = None,
    operator: Operators = None,
    match: Patterns = None,
    server: Server = "",
    jobs: Jobs = 2,
    known_failures: KnownFailures = None,
    baseline: Baseline = "",
    history: History = "",
    junit: Junit = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Judge outputs in files; `opserve conform cases --inputs` writes the inputs for them."""
    options = Options(
        suite=suite,
        seed=seed,
        wanted=wanted_of(operator, match),
        target=f"files:{folder}",
        server=server,
        execution=Execution(jobs=jobs),
        record_options=RecordOptions(history=history),
        prior=PriorResults(known_failures=known_failures, baseline=baseline),
    )
    files = Files(junit=junit, report=report)
    raise typer.Exit(run_and_report(options, Outputs(files=files, json=as_json), context.obj))


@app.command()
def cases(  # noqa: PLR0913  options of the command
    *,
    suite: SuiteName = "standard",
    seed: Seed = None,
    operator: Operators = None,
    match: Patterns = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Write the definitions of the cases to this file, as JSON lines that --suite "
            "accepts. Default: show a line for each case."
        ),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(help="Write the inputs (ID.npz) and definition (ID.json) of each case here."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the cases of a suite, or write their definitions or inputs to files."""
    whole = suite_named(suite, seed)
    found = chosen(whole, wanted_of(operator, match))
    part = replace(whole, cases=found)
    if output is not None:
        output.write_text(write_suite(part), encoding="utf-8")
    if inputs is not None:
        inputs.mkdir(parents=True, exist_ok=True)
        for case in part.cases:
            write_case(case, whole, inputs)
    if as_json:
        show_json([case.to_json() for case in part.cases])
    elif output is None and inputs is None:
        for case in part.cases:
            typer.echo(f"{case.id}  {case.expect}  {' '.join((*case.tags, case.source))}".rstrip())


@app.command(name="compare")
def compare_runs(
    context: typer.Context,
    before: Place,
    now: Place,
    *,
    server: OfHistory = "",
    as_json: AsJson = False,
) -> None:
    """Compare a run with an earlier one: new failures, newly skipped cases, drifts.

    Each run is a folder with a record, a record file, or service:RUN of --server. A drift is a
    largest error that grew, as a fraction of its tolerance. The exit status is 1 if a case newly
    fails or is newly skipped, and 2 if a run cannot be read.
    """
    access = Access(address=server, connection=context.obj)
    comparison = compare(*(outcomes_at(place, access) for place in (before, now)))
    show_comparison(comparison, as_json=as_json)
    raise typer.Exit(comparison.exit_code)


@app.command(name="send")
def send_record(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder or record file of a run.")],
    *,
    server: OfHistory,
    history: History,
) -> None:
    """Add a run to the history of a service."""
    send(read_record(record_path(folder)), history, Access(address=server, connection=context.obj))


@app.command()
def baseline(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name for the run, accepted wherever a run is.")],
    place: Place,
    *,
    server: OfHistory,
    history: History = "",
    as_json: AsJson = False,
) -> None:
    """Name a run of the service, or move a name to it.

    A run in a folder is first sent to the history that --history names.
    """
    access, run = Access(address=server, connection=context.obj), run_in(place)
    if run is None:
        run = send(read_record(record_path(Path(place))), history, access).id
    with access.client() as client:
        named = client.conformance.set_baseline(name, run)
    if as_json:
        show_json({"name": named.name, "run": named.run})
    else:
        typer.echo(f"{named.name} is run {named.run}")


@app.command()
def forget(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of a baseline.")],
    *,
    server: OfHistory,
) -> None:
    """Delete the name of a baseline; its run then expires like others."""
    with Access(address=server, connection=context.obj).client() as client:
        client.conformance.delete_baseline(name)


@app.command()
def runs(
    context: typer.Context,
    target: Annotated[str, typer.Argument(help="Show only runs of this target.")] = "",
    *,
    server: OfHistory,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Greatest number of runs.")] = 20,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show the runs in the history of a service, newest first."""
    access = Access(address=server, connection=context.obj)
    show(runs_on(target, access, limit), columns=COLUMNS, as_json=as_json, as_csv=as_csv)


@app.command()
def repro(  # noqa: PLR0913  options of the command
    context: typer.Context,
    *,
    case: Annotated[str, typer.Option(help="Id of the case.")],
    seed: Seed = None,
    suite: Annotated[
        str,
        typer.Option(help="Suite of the case; the default is standard, then exhaustive."),
    ] = "",
    target: TargetName = SERVICE_UNDER_TEST,
    accuracy: Accuracy = "direct",
    documented_rules: DocumentedRules = "error",
    server: Server = "",
    timeout: Timeout = 60.0,
    snippet: Snippet = None,
    as_json: AsJson = False,
) -> None:
    """Run one case again and show all details of its verdict."""
    if snippet is not None:
        check_writable(snippet)
    alone = case_named(case, (suite,) if suite else SEARCHED, seed)
    options = Options(
        suite=suite,
        target=target,
        wanted=Wanted(),
        server=server,
        execution=Execution(jobs=1, timeout_s=timeout),
        session_options=SessionOptions(accuracy=accuracy, documented_rules=documented_rules),
    )
    (result,) = run_suite(options, alone, alone.cases, context.obj).results
    if as_json:
        show_json(result_form(result))
    else:
        typer.echo("\n".join(report_lines(result)))
    if snippet is not None:
        snippet.write_text(snippet_of(result, alone.seed), encoding="utf-8")
    is_good = result.verdict.status in GOOD
    raise typer.Exit(ExitStatus.DONE if is_good else ExitStatus.FAILED)


def wanted_of(operators: list[str] | None, patterns: list[str] | None) -> Wanted:
    """Returns the selection of cases by the options."""
    return Wanted(operators=tuple(operators or ()), patterns=tuple(patterns or ()))
