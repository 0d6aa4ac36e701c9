"""Writes the lists of docs/reference/public-surface.md; with --check, only compares them."""

import argparse
import sys

from tools.public_surface.page import ADVICE, NAME, PAGE, written


def main() -> int:
    """Writes the page, or compares; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when stale")
    check = parser.parse_args().check
    before = PAGE.read_text()
    now = written(before)
    if not check:
        PAGE.write_text(now)
        return 0
    if before == now:
        return 0
    print(f"stale: {NAME}; {ADVICE}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
