"""Output of rows: a table for people, JSON and CSV for programs.

Values that callers chose may contain control characters, which are escaped for terminals, and may
look like formulas, which are quoted for spreadsheets.
"""

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
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


def _one_format(context: typer.Context, value: bool) -> bool:  # noqa: FBT001  # typer's call
    """Rejects the second of two formats before the command runs."""
    if value and (context.params.get("as_json") or context.params.get("as_csv")):
        raise typer.BadParameter("--json and --csv exclude each other.")
    return value


AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        callback=_one_format,
        help="Print one JSON document on standard output, and nothing else there.",
    ),
]
AsCsv = Annotated[
    bool,
    typer.Option(
        "--csv",
        callback=_one_format,
        help="Print the rows as CSV on standard output, below a line of column names.",
    ),
]


def named_like(suffix: str) -> Callable[[Path | None], Path | None]:
    """Returns a check of an option: the file's name must end in a suffix, such as ".npz"."""

    def checked(path: Path | None) -> Path | None:
        if path is not None and path.suffix != suffix:
            raise typer.BadParameter(f"{path} does not end in {suffix}: choose a name that does.")
        return path

    return checked


def show(
    rows: Sequence[Row], *, columns: Sequence[str], as_json: bool = False, as_csv: bool = False
) -> None:
    """Writes the given columns of rows to standard output, as a table by default."""
    if as_json:
        show_json([{name: row[name] for name in columns} for row in rows])
    elif as_csv:
        typer.echo(_csv(rows, columns), nl=False)
    else:
        width = None if sys.stdout.isatty() else UNBOUNDED
        Console(markup=False, highlight=False, width=width).print(table(rows, columns))


def show_json(value: object) -> None:
    """Writes a JSON document to standard output."""
    # json.dumps escapes all characters outside ASCII and all control characters but this one.
    text = json.dumps(value, allow_nan=False, indent=2)
    typer.echo(text.replace("\x7f", "\\u007f"))


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
