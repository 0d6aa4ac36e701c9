"""Writes the table of docs/reference/operators.md from the registry; --check fails when stale."""

import argparse
import sys
from pathlib import Path
from typing import Any

from opserve_kernels.operator import Operator, Support
from opserve_kernels.profiles import PROFILES, Profile
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import DataType

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/operators.md"
BEGIN, END = "<!-- support: make support -->\n", "<!-- end of support -->"
SOURCE_ONLY = "\\*"


def main() -> int:
    """Writes or compares the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when stale")
    check = parser.parse_args().check
    text = PAGE.read_text()
    if [text.count(BEGIN), text.count(END)] != [1, 1]:
        print(f"{PAGE.name}: must have {BEGIN.strip()} and {END}, each once")
        return 1
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    written = f"{before}{BEGIN}{table()}{END}{after}"
    if not check:
        PAGE.write_text(written)
        return 0
    if text == written:
        return 0
    print("stale: the table of docs/reference/operators.md; run make support")
    return 1


def table() -> str:
    """Returns the table of dtypes by profile and operator."""
    head = ["profile", *map(linked, OPERATORS.values())]
    rows = [head, ["---"] * len(head), *map(row, PROFILES.values())]
    lines = (f"| {' | '.join(cells)} |\n" for cells in rows)
    return f"{''.join(lines)}\n{SOURCE_ONLY} only in the vendor's newer source, not on its page.\n"


def linked(operator: Operator[Any]) -> str:
    """Returns an operator's name with a link to its page."""
    return f"[`{operator.call}`](../../kernels/opserve_kernels/operators/{operator.name}/README.md)"


def row(profile: Profile) -> list[str]:
    """Returns the row of a profile."""
    supports = [operator.support.get(profile.name) for operator in OPERATORS.values()]
    return [f"`{profile.name}`: {profile.products}", *map(cell, supports)]


def cell(support: Support | None) -> str:
    """Returns the dtypes of an operator on a profile, with notes."""
    if support is None:
        return ""
    dtypes = ", ".join(spelled(support, dtype) for dtype in support.dtypes)
    return f"{dtypes}; {support.notes}" if support.notes else dtypes


def spelled(support: Support, dtype: DataType) -> str:
    """Returns a dtype, with a mark if the vendor's page does not list it."""
    return f"{dtype}{SOURCE_ONLY}" if dtype in support.source_only else str(dtype)


if __name__ == "__main__":
    sys.exit(main())
