"""Output for GitHub Actions: annotations, and the summary of the step."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import typer

from opserve_client.conform.show import compared
from opserve_client.conform.summary import Summary

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
ANNOTATIONS_LIMIT = 10
"""Annotations of each kind in a step: GitHub drops further ones."""
SUMMARY_LIMIT_BYTES = 1 << 20
"""Size of a step's summary: GitHub drops a larger one as a whole."""
_MARKS = re.compile(r"[\\`*_\[\]!|~]")
"""Characters of Markdown for emphasis, code, links, images and cells."""


def write_step(summary: Summary, *, on_stderr: bool = False) -> None:
    """Writes annotations, and the summary to the file that GitHub names.

    Args:
        summary: The summary of the run.
        on_stderr: Whether to write the annotations to standard error, because standard output has
            a JSON document; GitHub reads both.
    """
    for line in annotations(summary):
        typer.echo(line, err=on_stderr)
    path = os.environ.get(SUMMARY_VARIABLE, "")
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(step_summary(summary))


def annotations(summary: Summary) -> Iterator[str]:
    """Yields an error for each failure, and a warning for each known failure that passes."""
    for result in summary.failures[:ANNOTATIONS_LIMIT]:
        title = f"{result.verdict.status} {result.case.id}"
        yield _annotation("error", title, result.verdict.reason)
    for known in summary.unexpected[:ANNOTATIONS_LIMIT]:
        yield _annotation("warning", "known failure passes", known.pattern)


def step_summary(summary: Summary) -> str:
    """Returns the summary in Markdown, cut at a line where it would be too long."""
    header, tally = summary.record.header, summary.record.tally
    compared_lines = [] if summary.comparison is None else compared(summary.comparison)
    sentence = "; ".join(filter(None, (summary.counts, summary.largest_error)))
    lines: list[str] = [
        f"### {_cell(header.target)} on {_cell(header.suite)}, seed {header.seed}",
        "",
        "| status | cases |",
        "|---|---|",
        *(f"| {status} | {n} |" for status, n in sorted(tally.counts.items())),
        "",
        f"{sentence}.",
        "",
        *map(_cell, compared_lines),
        "",
        "| failed | reason |",
        "|---|---|",
        *(f"| {one.case.id} | {_cell(one.verdict.reason)} |" for one in summary.failures),
    ]
    kept, size = list[str](), 0
    for line in lines:
        size += len(line.encode()) + 1
        if size > SUMMARY_LIMIT_BYTES:
            break
        kept.append(f"{line}\n")
    return "".join(kept)


def _annotation(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _cell(text: str) -> str:
    """Escapes a text for a cell of a Markdown table."""
    one_line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKS.sub(r"\\\g<0>", one_line)
