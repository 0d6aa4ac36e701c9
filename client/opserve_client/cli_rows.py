"""Rows as the command line tells them: a table for people, JSON and CSV for programs.

What callers chose may hold control characters, which no terminal gets, and may look like a formula,
which no spreadsheet gets.
"""

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from io import StringIO
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

Cell: TypeAlias = str | int | float | bool | None
Row: TypeAlias = Mapping[str, Cell]
_FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet takes for the start of a formula."""
UNBOUNDED = 10_000
"""Columns of what is no terminal: a line is never folded there."""


class Form(StrEnum):
    """How rows are told."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


Output = Annotated[Form, typer.Option("--output", help="How to tell it.")]


def show(rows: Sequence[Row], *, columns: Sequence[str], output: Form) -> None:
    """Writes rows, each with these columns, to standard output."""
    match output:
        case Form.TABLE:
            width = None if sys.stdout.isatty() else UNBOUNDED
            Console(markup=False, highlight=False, width=width).print(table(rows, columns))
        case Form.JSON:
            typer.echo(_json([{name: row[name] for name in columns} for row in rows]))
        case Form.CSV:
            typer.echo(_csv(rows, columns), nl=False)


def table(rows: Sequence[Row], columns: Sequence[str]) -> Table:
    """Rows under the names of their columns."""
    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    numeric = {name for name in columns if any(_is_number(row[name]) for row in rows)}
    for name in columns:
        made.add_column(name, justify="right" if name in numeric else "left", overflow="fold")
    for row in rows:
        made.add_row(*(_shown(row[name]) for name in columns))
    return made


def printable(text: str) -> str:
    """A text without what a terminal would obey: control and direction characters are spelled."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def moment(seconds: float | None) -> str | None:
    """A time, given in seconds since 1970, in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _shown(cell: Cell) -> str:
    match cell:
        case None:
            return "-"
        case bool():
            return "yes" if cell else "no"
        case float():
            return f"{cell:.10g}" if cell.is_integer() else f"{cell:.6g}"
        case _:
            return printable(str(cell))


def _json(rows: Sequence[Row]) -> str:
    # It escapes what is not ASCII, and of ASCII all that is no character but this one.
    return json.dumps(rows, indent=2).replace("\x7f", "\\u007f")


def _csv(rows: Sequence[Row], columns: Sequence[str]) -> str:
    written = StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_in_csv(row[name]) for name in columns] for row in rows)
    return written.getvalue()


def _in_csv(cell: Cell) -> Cell:
    if not isinstance(cell, str):
        return cell
    text = printable(cell)
    return f"'{text}" if text.startswith(_FORMULA) else text
