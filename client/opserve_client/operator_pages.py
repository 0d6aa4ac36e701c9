"""Output of `opserve operators`: all operators in short, or one in full."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from rich.console import Console
from rich.table import Table

from opserve.v1 import tensor_pb2
from opserve.v1.operator_description_pb2 import (
    ErrorDescription,
    LimitDescription,
    OperatorDescription,
    ParameterDescription,
    SupportDescription,
)

_SOURCE_ONLY = "*"
_FOOTNOTE = f"{_SOURCE_ONLY} only in the vendor's newer source, not on its page."


def show_all(operators: Iterable[OperatorDescription]) -> None:
    """Prints each operator with the dtypes that each profile supports."""
    console = _console()
    described = list(operators)
    for operator in described:
        _heading(console, operator)
        console.print(_support(operator.support))
    _footnote(console, described)


def show_one(operator: OperatorDescription) -> None:
    """Prints parameters, support, limits and errors of one operator."""
    console = _console()
    _heading(console, operator)
    console.print(f"family {operator.family}, revision {operator.revision} of its contract")
    console.print("\nparameters")
    console.print(_parameters(operator.parameters))
    console.print("\nprofiles")
    console.print(_support(operator.support))
    if operator.limits:
        console.print("\nlimits")
        console.print(_limits(operator.limits))
    console.print("\nerrors")
    console.print(_errors(operator.errors))
    names = _names_of_codes(operator.errors)
    if names.row_count:
        console.print("\ncodes")
        console.print(names)
    _footnote(console, [operator])


def _console() -> Console:
    # Descriptions contain brackets, which rich would take for markup.
    return Console(markup=False, highlight=False)


def _heading(console: Console, operator: OperatorDescription) -> None:
    name = "" if operator.name == operator.call else f" ({operator.name})"
    console.print(f"{operator.call}{name}", soft_wrap=True)


def _footnote(console: Console, operators: Iterable[OperatorDescription]) -> None:
    if any(row.source_only for operator in operators for row in operator.support):
        console.print(f"\n{_FOOTNOTE}")


def _table(*columns: str) -> Table:
    """Returns a table without lines that folds long cells."""
    table = Table(box=None, show_header=False, padding=(0, 0, 0, 2))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _support(rows: Iterable[SupportDescription]) -> Table:
    table = _table("profile", "dtypes", "notes")
    for row in rows:
        dtypes = ", ".join(_data_type(row, dtype) for dtype in row.dtypes)
        table.add_row(row.profile, dtypes, row.notes)
    return table


def _data_type(row: SupportDescription, number: tensor_pb2.DataType.ValueType) -> str:
    name = tensor_pb2.DataType.Name(number).removeprefix("DATA_TYPE_")
    return f"{name}{_SOURCE_ONLY}" if number in row.source_only else name


def _parameters(parameters: Iterable[ParameterDescription]) -> Table:
    table = _table("name", "kind", "description")
    for name, parameter in _with_members(parameters):
        kind = f"{parameter.kind}, written" if parameter.written else parameter.kind
        table.add_row(name, kind, parameter.description)
    return table


def _with_members(
    parameters: Iterable[ParameterDescription], *, inside: str = ""
) -> Iterator[tuple[str, ParameterDescription]]:
    for parameter in parameters:
        yield f"{inside}{parameter.name}", parameter
        yield from _with_members(parameter.members, inside=f"{inside}  ")


def _limits(limits: Iterable[LimitDescription]) -> Table:
    table = _table("parameter", "bounds", "where")
    for limit in limits:
        where = [limit.where, f"on {', '.join(limit.profiles)}" if limit.profiles else ""]
        most = f"to {limit.most}" if limit.HasField("most") else "or more"
        table.add_row(limit.parameter, f"{limit.least} {most}", "; ".join(filter(None, where)))
    return table


def _names_of_codes(errors: Iterable[ErrorDescription]) -> Table:
    """Returns a table of the names of numeric codes."""
    table = _table("code", "name")
    for code, reason in dict.fromkeys((_code(row), row.reason) for row in errors):
        if code != reason:
            table.add_row(code, reason)
    return table


def _errors(errors: Iterable[ErrorDescription]) -> Table:
    """Returns a table in the operator's order; neighbours with equal texts share a row."""
    table = _table("code", "broken", "stated by")
    shown = ""
    for (code, broken, origin), rows in groupby(
        errors, key=lambda row: (_code(row), row.broken, row.origin)
    ):
        names = ", ".join(row.parameter for row in rows)
        table.add_row("" if code == shown else code, f"{names}: {broken}", origin)
        shown = code
    return table


def _code(error: ErrorDescription) -> str:
    """Returns the code in the vendor's spelling: 161002, or E60011 for the number 60011."""
    number = str(error.code)
    return error.reason if error.reason == f"E{number}" else number
