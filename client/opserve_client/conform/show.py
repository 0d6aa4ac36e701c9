"""Terminal output of a run: progress on standard error, the summary on standard output."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress

from opserve_client.cli_rows import show_json
from opserve_client.conform.record import Result
from opserve_client.conform.summary import Summary
from opserve_client.recovery import RECOVERY_S
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.comparison import Comparison
from opserve_kernels.verdict.verdict import GOOD

_LISTED = 20  # failures in the output; the record has all
_OTHER_VARIANT = "the kernel variants differ, so the last bits of right results may differ"


@contextmanager
def progress(cases: int) -> Generator[Callable[[Result], None]]:
    """Shows a progress bar on a terminal; yields the function to call with each result."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task, failed = bar.add_task("", total=cases), 0

        def advance(result: Result) -> None:
            nonlocal failed
            failed += result.verdict.status not in GOOD
            bar.update(task, advance=1, description=f"{failed} failed")

        yield advance


def show_summary(summary: Summary, *, as_json: bool) -> None:
    """Prints the summary on standard output."""
    if as_json:
        show_json(summary.to_json())
    else:
        typer.echo("\n".join(_lines(summary)))


def show_comparison(comparison: Comparison, *, as_json: bool) -> None:
    """Prints the differences of two runs on standard output."""
    if as_json:
        show_json(comparison.to_json())
    else:
        typer.echo("\n".join(compared(comparison) or ["no differences"]))


def words_on(case: Case) -> str:
    """Returns the tags and the source of a case in brackets, for output after its id."""
    words = ", ".join(filter(None, (*case.tags, case.source)))
    return words and f" ({words})"


def show_start() -> None:
    """Announces on standard error the start of a service, which takes some seconds."""
    typer.echo("starting a service; the first start compiles its kernels", err=True)


def show_replaced(record: Path) -> None:
    """Reports on standard error that the record of an earlier run is lost."""
    typer.echo(f"{record}: replaced the record of an earlier run", err=True)


def show_waiting(reason: str) -> None:
    """Reports on standard error that the run waits for a service."""
    typer.echo(f"waiting up to {RECOVERY_S:g} s for the service: {reason}", err=True)


def show_interrupted(folder: Path | None) -> None:
    """Reports on standard error how to continue an interrupted run."""
    hint = (
        "" if folder is None else f": {folder} has the results so far; --resume continues the run"
    )
    typer.echo(f"interrupted{hint}", err=True)


def compared(comparison: Comparison) -> list[str]:
    """Returns the lines of a comparison."""
    drifts = [f"{one.case} {one.before:.3g} -> {one.now:.3g}" for one in comparison.drifts]
    return [
        *([] if comparison.same_suite else ["the suites have different cases or inputs"]),
        *([] if comparison.same_variant else [_OTHER_VARIANT]),
        *_named("new failures", comparison.new_failures),
        *_named("fixed", comparison.fixed),
        *_named("newly skipped", comparison.newly_skipped),
        *_named("larger errors, as a fraction of the tolerance", drifts),
        *([f"not in this run: {comparison.missing}"] if comparison.missing else []),
    ]


def _lines(summary: Summary) -> list[str]:
    header = summary.record.header
    known = [f"{one.case.id}{_reason(summary, one)}" for one in summary.known]
    warned = [f"{one.case.id}: {'; '.join(one.warnings)}" for one in summary.warned]
    total = f"{header.target} on {header.suite}, seed {header.seed}: {summary.counts}"
    return [
        *_named("failures", [*map(_failure, summary.decisive)]),
        *_named("failures that the baseline has, too", [*map(_failure, summary.excused)]),
        *_named("known failures", known),
        *_named("known failures that pass", [one.text for one in summary.unexpected]),
        *_named(
            "lines of known failures that match no selected case",
            [one.text for one in summary.expectations.unmatched],
        ),
        *([] if summary.comparison is None else compared(summary.comparison)),
        *_named("accepted calls that break a rule of the vendor's page", warned),
        *([] if summary.is_judged else ["no verdict: the target ran none of the selected cases"]),
        "; ".join(filter(None, (total, summary.largest_error, _excuse(summary)))),
    ]


def _failure(result: Result) -> str:
    """Formats a failure on one line: the text of a kernel's exception may have several."""
    reason = " ".join(result.verdict.reason.split())
    return f"{result.verdict.status} {result.case.id}{words_on(result.case)}: {reason}"


def _reason(summary: Summary, result: Result) -> str:
    reason = summary.expectations.failing[result.case.id].reason
    return f"  # {reason}" if reason else ", without a reason in the file"


def _excuse(summary: Summary) -> str:
    count = len(summary.excused)
    if not count:
        return ""
    failures = "the failure" if count == 1 else f"the {count} failures"
    return f"{failures} that the baseline has, too, did not fail this run"


def _named(title: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = [f"  and {len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return [f"{title}: {len(names)}", *(f"  {name}" for name in names[:_LISTED]), *more]
