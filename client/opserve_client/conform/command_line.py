"""The command line: opserve conform run | verify | cases | compare | repro.

Of a service's history: send | runs | baseline | forget.

Exit status: 0 all that was judged is right, 1 something is not, 2 nothing can be said: a wrong
option, a service that does not answer, a file that cannot be read.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from opserve_client.cli_connection import Accuracy, DocumentedRules, Ways
from opserve_client.cli_rows import Form, Output, show
from opserve_client.conform.history import COLUMNS, PLACES, outcomes_at, run_in, runs_on, send
from opserve_client.conform.options import (
    Effort,
    Expected,
    Files,
    Kept,
    Options,
    Outputs,
    perform,
    tried,
)
from opserve_client.conform.record import RecordError, read_record, record_path
from opserve_client.conform.repro import SEARCHED, case_named, snippet_of, told
from opserve_client.conform.selection import chosen, suite_named
from opserve_client.conform.show import show_comparison
from opserve_client.conform.targets.arrays_files import write_case
from opserve_client.conform.targets.device import Terms
from opserve_client.conform.targets.named import FORMS, ITSELF, Access
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.errors import OpserveError
from opserve_kernels.cases.suite import Suite, write_suite
from opserve_kernels.conformance.comparison import compare
from opserve_kernels.conformance.selection import Wanted
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.status import ExitStatus
from opserve_kernels.verdict.judge_case import standards_of
from opserve_kernels.verdict.verdict import GOOD

app = typer.Typer(
    help="Kernels tried on conformance cases, and judged.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

SuiteName = Annotated[
    str,
    typer.Option(
        "--suite",
        help="smoke, standard, exhaustive, a file, or benchdnn:FILE, miopen:FILE, onnx:FOLDER.",
    ),
]
Seed = Annotated[int | None, typer.Option(help="That inputs are drawn by; 0, or a file's.")]
Operators = Annotated[list[str] | None, typer.Option("--operator", help="Only this one; repeat.")]
Patterns = Annotated[
    list[str] | None,
    typer.Option("--match", help="Only cases whose id, source or tag is like it (*, ?); repeat."),
]
Server = Annotated[
    str, typer.Option(help="The service that expected values come from; none starts one.")
]
OfHistory = Annotated[str, typer.Option("--server", help="The service that has the history.")]
TargetName = Annotated[str, typer.Option("--target", help=f"What is tried: {FORMS}.")]
Jobs = Annotated[int, typer.Option(min=1, help="Processes that try cases.")]
Repeats = Annotated[int, typer.Option(min=1, help="Equal calls, whose bits must be equal.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds that a case may take.")]
Folder = Annotated[Path | None, typer.Option(help="Where the record of the run goes.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the record in the folder.")]
KnownFailures = Annotated[
    Path | None, typer.Option(help="Cases that fail for now: a pattern a line, # and why.")
]
Baseline = Annotated[
    str, typer.Option(help=f"An earlier run: only what is worse fails this one; {PLACES}.")
]
History = Annotated[
    str, typer.Option(help="Adds the run to the history of --server, of a target by this name.")
]
Place = Annotated[str, typer.Argument(help=f"A run: {PLACES}.")]
Junit = Annotated[Path | None, typer.Option(help="Results as JUnit has them, XML.")]
AsJson = Annotated[bool, typer.Option("--json", help="The summary as JSON, on standard output.")]
Report = Annotated[Path | None, typer.Option(help="The report, one HTML file.")]
Metrics = Annotated[Path | None, typer.Option(help="Counts, as OpenMetrics has them.")]
Badge = Annotated[Path | None, typer.Option(help="A badge, as shields.io reads it.")]
Github = Annotated[bool, typer.Option("--github", help="Annotations and summary of the step.")]
Reported = Annotated[list[str] | None, typer.Option("--standard", help="Told besides; repeat.")]
Gates = Annotated[list[str] | None, typer.Option("--gate", help="A standard to meet; repeat.")]


def main(arguments: Sequence[str], context: Ways) -> None:
    """Runs the command line; exits with its status.

    Args:
        arguments: Behind "conform".
        context: The program's options on the way to a service (cli_connection.Ways).
    """
    try:
        app(args=list(arguments), prog_name="opserve conform", obj=context)
    except (InfrastructureError, InvalidArgument, OpserveError, RecordError, OSError) as error:
        one_line = " ".join(str(error).split())
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
    target: TargetName = ITSELF,
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
    json: AsJson = False,
    github: Github = False,
) -> None:
    """Try a target on the cases of a suite."""
    wanted = wanted_of(operator, match)
    plain = Options(suite=suite, seed=seed, wanted=wanted, target=target, server=server)
    options = replace(
        plain,
        effort=Effort(jobs=jobs, repeats=repeats, timeout_s=timeout),
        standards=standards_of(standard or (), gate or ()),
        kept=Kept(folder=folder, resume=resume, history=history),
        expected=Expected(known_failures=known_failures, baseline=baseline),
        terms=Terms(accuracy=accuracy, documented_rules=documented_rules),
    )
    files = Files(junit=junit, report=report, metrics=metrics, badge=badge)
    raise typer.Exit(perform(options, Outputs(files=files, json=json, github=github), context.obj))


@app.command()
def verify(  # noqa: PLR0913  options of the command
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="With an .npz of outputs for each case, ID.npz.")],
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
    json: AsJson = False,
) -> None:
    """Judge outputs that were computed before; `cases --inputs` writes what to compute them of."""
    options = Options(
        suite=suite,
        seed=seed,
        wanted=wanted_of(operator, match),
        target=f"files:{folder}",
        server=server,
        effort=Effort(jobs=jobs),
        kept=Kept(history=history),
        expected=Expected(known_failures=known_failures, baseline=baseline),
    )
    files = Files(junit=junit, report=report)
    raise typer.Exit(perform(options, Outputs(files=files, json=json), context.obj))


@app.command()
def cases(
    *,
    suite: SuiteName = "standard",
    seed: Seed = None,
    operator: Operators = None,
    match: Patterns = None,
    output: Annotated[Path | None, typer.Option(help="Write them as a suite.")] = None,
    inputs: Annotated[Path | None, typer.Option(help="Write ID.npz and ID.json of each.")] = None,
) -> None:
    """Show the cases of a suite, or write them or their inputs."""
    whole = suite_named(suite, seed)
    found = chosen(whole, wanted_of(operator, match))
    part = Suite(name=whole.name, seed=whole.seed, cases=found)
    if output is not None:
        output.write_text(write_suite(part), encoding="utf-8")
    if inputs is not None:
        inputs.mkdir(parents=True, exist_ok=True)
        for case in part.cases:
            write_case(case, whole.seed, inputs)
    if output is None and inputs is None:
        for case in part.cases:
            typer.echo(f"{case.id}  {case.expect}  {' '.join((*case.tags, case.source))}".rstrip())


@app.command(name="compare")
def compare_runs(
    context: typer.Context,
    before: Place,
    now: Place,
    *,
    server: OfHistory = "",
    json: AsJson = False,
) -> None:
    """Tell what a run has that an earlier one had not: failures, cases left out, drifts."""
    access = Access(address=server, ways=context.obj)
    comparison = compare(*(outcomes_at(place, access) for place in (before, now)))
    show_comparison(comparison, as_json=json)
    raise typer.Exit(comparison.exit_code)


@app.command(name="send")
def send_record(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder or record of a run.")],
    *,
    server: OfHistory,
    history: History,
) -> None:
    """Add a run to the history of a service."""
    send(read_record(record_path(folder)), history, Access(address=server, ways=context.obj))


@app.command()
def baseline(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Wherever a run is asked for, it stands for it.")],
    place: Place,
    *,
    server: OfHistory,
    history: History = "",
) -> None:
    """Name a run of the service, or move a name; one in a folder is sent with --history before."""
    access, run = Access(address=server, ways=context.obj), run_in(place)
    if run is None:
        run = send(read_record(record_path(Path(place))), history, access).id
    with access.client() as client:
        named = client.conformance.set_baseline(name, run)
    typer.echo(f"{named.name} is run {named.run}")


@app.command()
def forget(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A baseline of the service.")],
    *,
    server: Server,
) -> None:
    """Take a baseline's name away; its run stays as long as others of its age."""
    with Access(address=server, ways=context.obj).client() as client:
        client.conformance.delete_baseline(name)


@app.command()
def runs(
    context: typer.Context,
    target: Annotated[str, typer.Argument(help="Only runs of this one.")] = "",
    *,
    server: Server,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Runs at most.")] = 20,
    output: Output = Form.TABLE,
) -> None:
    """Show the history of a service, the newest run first."""
    access = Access(address=server, ways=context.obj)
    show(runs_on(target, access, limit), columns=COLUMNS, output=output)


@app.command()
def repro(  # noqa: PLR0913  options of the command
    context: typer.Context,
    *,
    case: Annotated[str, typer.Option(help="Its id.")],
    seed: Seed = None,
    suite: Annotated[str, typer.Option(help="That has it; standard, then exhaustive.")] = "",
    target: TargetName = ITSELF,
    accuracy: Accuracy = "direct",
    documented_rules: DocumentedRules = "error",
    server: Server = "",
    timeout: Timeout = 60.0,
    snippet: Annotated[Path | None, typer.Option(help="Write a program that tries it.")] = None,
) -> None:
    """Try one case again, and tell all about it."""
    found, drawn_by = case_named(case, (suite,) if suite else SEARCHED, seed)
    options = Options(
        suite=suite,
        target=target,
        wanted=Wanted(),
        server=server,
        effort=Effort(jobs=1, timeout_s=timeout),
        terms=Terms(accuracy=accuracy, documented_rules=documented_rules),
    )
    alone = Suite(name=suite or "repro", seed=drawn_by, cases=(found,))
    (result,) = tried(options, alone, alone.cases, context.obj).results
    typer.echo("\n".join(told(result)))
    if snippet is not None:
        snippet.write_text(snippet_of(result, drawn_by), encoding="utf-8")
    is_good = result.verdict.status in GOOD
    raise typer.Exit(ExitStatus.DONE if is_good else ExitStatus.FAILED)


def wanted_of(operators: list[str] | None, patterns: list[str] | None) -> Wanted:
    """What is chosen of a suite."""
    return Wanted(operators=tuple(operators or ()), patterns=tuple(patterns or ()))
