"""What a person sees of a run: progress on standard error, the summary on standard output."""

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress

from opserve_client.conform.record import Result
from opserve_client.conform.summary import Summary
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.comparison import Comparison
from opserve_kernels.verdict.verdict import GOOD

_LISTED = 20  # failures that are shown; the record has all


@contextmanager
def progress(cases: int) -> Generator[Callable[[Result], None]]:
    """A bar on a terminal; gives what is told each result."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task, failed = bar.add_task("", total=cases), 0

        def tell(result: Result) -> None:
            nonlocal failed
            failed += result.verdict.status not in GOOD
            bar.update(task, advance=1, description=f"{failed} failed")

        yield tell


def show_summary(summary: Summary, *, as_json: bool) -> None:
    """The whole on standard output."""
    typer.echo(_json(summary.to_json()) if as_json else "\n".join(_lines(summary)))


def show_comparison(comparison: Comparison, *, as_json: bool) -> None:
    """What differs, on standard output."""
    lines = compared(comparison) or ["nothing differs"]
    typer.echo(_json(comparison.to_json()) if as_json else "\n".join(lines))


def words_on(case: Case) -> str:
    """What the case covers, in brackets behind its id; "" where it does not say."""
    words = ", ".join(filter(None, (*case.tags, case.source)))
    return words and f" ({words})"


def show_start() -> None:
    """On standard error, why nothing else is shown for some seconds."""
    typer.echo("a service is started; the first one compiles its kernels", err=True)


def show_interrupted(folder: Path | None) -> None:
    """On standard error, how a run goes on that a key ended."""
    told = "" if folder is None else f": {folder} has what was judged, and --resume goes on with it"
    typer.echo(f"interrupted{told}", err=True)


def compared(comparison: Comparison) -> list[str]:
    """Lines that tell what differs."""
    drifts = [f"{one.case} {one.before:.3g} -> {one.now:.3g}" for one in comparison.drifts]
    return [
        *([] if comparison.same_suite else ["the suites differ: other cases, or other inputs"]),
        *_named("new failures", comparison.new_failures),
        *_named("fixed", comparison.fixed),
        *_named("newly skipped", comparison.newly_skipped),
        *_named("more of the tolerance used", drifts),
        *([f"not chosen now: {comparison.missing}"] if comparison.missing else []),
    ]


def _lines(summary: Summary) -> list[str]:
    header, tally = summary.record.header, summary.record.tally
    told = ", ".join(f"{n} {status}" for status, n in sorted(tally.counts.items()))
    failures = [
        f"{one.verdict.status} {one.case.id}{words_on(one.case)}: {one.verdict.reason}"
        for one in summary.failures
    ]
    warned = [f"{one.case.id}: {'; '.join(one.warnings)}" for one in summary.warned]
    total = f"{header.target} on {header.suite}, seed {header.seed}: {told}"
    return [
        *_named("failures", failures),
        *_named("known failures", [one.case.id for one in summary.known]),
        *_named("known failures that pass", [one.pattern for one in summary.unexpected]),
        *([] if summary.comparison is None else compared(summary.comparison)),
        *_named("page rules broken by accepted calls", warned),
        *([] if summary.is_judged else ["nothing was judged"]),
        f"{total}; at most {tally.worst:.3g} of a tolerance used",
    ]


def _named(title: str, names: Sequence[str]) -> list[str]:
    if not names:
        return []
    more = [f"  and {len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return [f"{title}: {len(names)}", *(f"  {name}" for name in names[:_LISTED]), *more]


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False, indent=1)
