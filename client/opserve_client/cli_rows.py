"""Output of rows: a table for people, JSON and CSV for programs.

Values that callers chose may contain control characters, which are escaped for terminals, and may
look like formulas, which are quoted for spreadsheets.
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
"""First characters that a spreadsheet interprets as a formula."""
UNBOUNDED = 10_000
"""Width of output that is no terminal, in characters: its lines are never folded."""


class OutputFormat(StrEnum):
    """Formats of rows."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


Output = Annotated[OutputFormat, typer.Option("--output", help="Format of the output.")]


def show(rows: Sequence[Row], *, columns: Sequence[str], output: OutputFormat) -> None:
    """Writes the given columns of rows to standard output."""
    match output:
        case OutputFormat.TABLE:
            width = None if sys.stdout.isatty() else UNBOUNDED
            Console(markup=False, highlight=False, width=width).print(table(rows, columns))
        case OutputFormat.JSON:
            typer.echo(_json([{name: row[name] for name in columns} for row in rows]))
        case OutputFormat.CSV:
            typer.echo(_csv(rows, columns), nl=False)


def table(rows: Sequence[Row], columns: Sequence[str]) -> Table:
    """Returns a table of rows under the names of their columns."""
    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    numeric = {name for name in columns if any(_is_number(row[name]) for row in rows)}
    for name in columns:
        made.add_column(name, justify="right" if name in numeric else "left", overflow="fold")
    for row in rows:
        made.add_row(*(_shown(row[name]) for name in columns))
    return made


def printable(text: str) -> str:
    """Escapes the control and direction characters of a text, which a terminal would interpret."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def moment(seconds: float | None) -> str | None:
    """Formats a time in seconds since 1970, in UTC."""
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
    # json.dumps escapes all characters outside ASCII and all control characters but this one.
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
