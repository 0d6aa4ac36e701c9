"""The page of the public surface: its lists, and the same names one by one."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from tools.public_surface import names, telemetry
from tools.public_surface.python_names import MODULES, exports

NAME = "docs/reference/public-surface.md"
PAGE = Path(__file__).resolve().parents[2] / NAME
ADVICE = (
    "a public name changed: change the page and add a row to CHANGELOG's table Renamed "
    "(`make surface` writes the page; a new name needs no row)"
)
_LIST = re.compile(r"(<!-- list: (\w+) -->\n).*?(<!-- end of list -->)", re.DOTALL)


def written(page: str) -> str:
    """The page with its lists as the code has them now.

    Raises:
        ValueError: The page has not each list once.
    """
    there = [name for _, name, _ in _LIST.findall(page)]
    if sorted(there) != sorted(LISTS):
        raise ValueError(f"{NAME}: given lists {there}, allowed each of {list(LISTS)} once")
    return _LIST.sub(lambda found: f"{found[1]}{LISTS[found[2]]()}{found[3]}", page)


def public_names() -> Iterator[tuple[str, str]]:
    """Every public name, behind its kind."""
    for module in MODULES:
        for export in exports(module):
            yield from _python(f"{module}.{export.name}")
            for member in export.members:
                yield from _python(f"{module}.{export.name.partition('(')[0]}.{member}")
    yield from (("RPC", rpc) for rpc in names.rpcs())
    yield from _grouped("route", names.routes(), "route parameter", "{} {}")
    members = {member for some in names.json_members().values() for member in some}
    yield from (("JSON member", member) for member in sorted(members))
    yield from _grouped("metric", telemetry.metrics(), "metric label", "{}{{{}}}")
    yield from (("log member", member) for member in telemetry.log_members())
    attributes = {name for some in telemetry.spans().values() for name in some}
    yield from (("span attribute", name) for name in sorted(attributes))
    yield from (("setting", name) for name in names.settings())
    options = {
        command: [word for word in words if word.startswith("-")]
        for command, words in names.commands().items()
    }
    yield from _grouped("command", options, "option", "{} {}")
    yield from (("exit status", status) for status in names.exit_statuses())
    yield from (("status code", code) for code in names.status_codes())
    for kind, words in names.words().items():
        yield from ((kind, word) for word in words)
    yield from (("variable", name) for name in names.VARIABLES)
    yield from (("pytest option", option) for option in names.pytest_options())


def _python(name: str) -> Iterator[tuple[str, str]]:
    """A name, and each of its parameters."""
    called, _, parameters = name.rstrip(")").partition("(")
    yield "Python", called
    yield from (("Python", f"{called}({one})") for one in parameters.split(", ") if one)


def _grouped(
    kind: str, groups: Mapping[str, Iterable[str]], kind_of_members: str, form: str
) -> Iterator[tuple[str, str]]:
    for name, members in groups.items():
        yield kind, name
        yield from ((kind_of_members, form.format(name, member)) for member in members)


def _python_list() -> str:
    parts: list[str] = []
    for module in MODULES:
        rows = [(export.name, export.members) for export in exports(module)]
        parts.append(f"\n### `{module}`\n\n{_table('name', 'members', rows)}")
    return "".join(parts) + "\n"


def _table(head: str, second: str, rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    lines = [f"| {head} | {second} |\n|---|---|\n"]
    lines += [f"| `{name}` | {_codes(members)} |\n" for name, members in rows]
    return "".join(lines)


def _codes(members: Iterable[str]) -> str:
    return ", ".join(f"`{member}`" for member in members)


def _bullets(members: Iterable[str]) -> str:
    return "".join(f"- `{member}`\n" for member in members)


def _by_first_word(members: Iterable[str], separator: str) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for member in members:
        first, _, rest = member.partition(separator)
        groups.setdefault(first, []).append(rest)
    return groups


def _rows_of_texts(head: str, second: str, rows: Mapping[str, str]) -> str:
    lines = (f"| `{name}` | {text} |\n" for name, text in rows.items())
    return f"| {head} | {second} |\n|---|---|\n{''.join(lines)}"


LISTS: Mapping[str, Callable[[], str]] = {
    "python": _python_list,
    "rpcs": lambda: _table("service", "RPCs", _by_first_word(names.rpcs(), "/").items()),
    "routes": lambda: _table("route", "parameters and headers", names.routes().items()),
    "json": lambda: _table("object", "members", names.json_members().items()),
    "status_codes": lambda: _table(
        "domain", "codes", _by_first_word(names.status_codes(), " ").items()
    ),
    "metrics": lambda: _table("metric", "labels", telemetry.metrics().items()),
    "log": lambda: _bullets(telemetry.log_members()),
    "spans": lambda: _table("span", "attributes", telemetry.spans().items()),
    "settings": lambda: _bullets(names.settings()),
    "commands": lambda: _table("command", "arguments and options", names.commands().items()),
    "exit_statuses": lambda: _bullets(names.exit_statuses()),
    "words": lambda: _table("kind", "words", names.words().items()),
    "variables": lambda: _rows_of_texts("variable", "meaning", names.VARIABLES),
    "pytest": lambda: _bullets(names.pytest_options()),
}
"""The lists of the page, by the name in its marks."""
