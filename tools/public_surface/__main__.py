"""Writes the lists of docs/reference/public-surface.md; with --check, only compares them."""

import argparse
import sys
from pathlib import Path

from tools.public_surface.page import ADVICE, NAME, PAGE, public_names, written


def main() -> int:
    """Writes the page, or compares; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when stale")
    parser.add_argument("--names", type=Path, help="write every public name to this file instead")
    given = parser.parse_args()
    if given.names is not None:
        lines = sorted({f"{kind}\t{name}\n" for kind, name in public_names()})
        given.names.write_text("".join(lines))
        return 0
    before = PAGE.read_text()
    now = written(before)
    if not given.check:
        PAGE.write_text(now)
        return 0
    if before == now:
        return 0
    print(f"stale: {NAME}; {ADVICE}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
