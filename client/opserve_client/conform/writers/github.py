"""A run in a step of a GitHub workflow: annotations on standard output, and the step's summary."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import typer

from opserve_client.conform.show import compared
from opserve_client.conform.summary import Summary

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
ANNOTATIONS_LIMIT = 10  # of a kind and step; GitHub drops more
SUMMARY_LIMIT_BYTES = 1 << 20  # of a step; GitHub drops all of a longer one
_MARKS = re.compile(r"[\\`*_\[\]!|~]")
"""What Markdown takes for emphasis, code, a link, an image or the end of a cell."""


def write_step(summary: Summary) -> None:
    """Annotations, and the summary where GitHub says."""
    for line in annotations(summary):
        typer.echo(line)
    path = os.environ.get(SUMMARY_VARIABLE, "")
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(step_summary(summary))


def annotations(summary: Summary) -> Iterator[str]:
    """An error for each failure, a warning for each known failure that passes."""
    for result in summary.failures[:ANNOTATIONS_LIMIT]:
        title = f"{result.verdict.status} {result.case.id}"
        yield _annotation("error", title, result.verdict.reason)
    for known in summary.unexpected[:ANNOTATIONS_LIMIT]:
        yield _annotation("warning", "known failure passes", known.pattern)


def step_summary(summary: Summary) -> str:
    """Markdown, cut off at a line where it would be too long."""
    header, tally = summary.record.header, summary.record.tally
    compared_lines = [] if summary.comparison is None else compared(summary.comparison)
    lines: list[str] = [
        f"### {_cell(header.target)} on {_cell(header.suite)}, seed {header.seed}",
        "",
        "| status | cases |",
        "|---|---|",
        *(f"| {status} | {n} |" for status, n in sorted(tally.counts.items())),
        "",
        f"At most {tally.worst:.3g} of a tolerance used.",
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
    """Text in a table of Markdown."""
    one_line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKS.sub(r"\\\g<0>", one_line)
