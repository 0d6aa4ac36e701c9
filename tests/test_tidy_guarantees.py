"""Every promise of docs/reference/guarantees.md names an existing test."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = (REPOSITORY / "docs/reference/guarantees.md").read_text()
PROMISES = PAGE.partition("## Requests")[2].partition("## Measured")[0]
NAME = re.compile(r"`(test_\w+)`")


def existing_tests() -> set[str]:
    """Names of all test functions."""
    sources = (path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py"))
    return {name for source in sources for name in re.findall(r"def (test_\w+)\(", source)}


def promises() -> list[str]:
    """Each item of a list, and each row of a table but for its head."""
    items = re.findall(r"^- (?:.|\n(?!- |\n))+", PROMISES, re.MULTILINE)
    rows = re.findall(r"^\| (?!---|failure \|).*", PROMISES, re.MULTILINE)
    return [*items, *rows]


def test_every_guarantee_names_its_test() -> None:
    found = promises()
    assert len(found) > 30
    assert [promise for promise in found if not NAME.search(promise)] == []


def test_every_test_that_a_guarantee_names_exists() -> None:
    assert set(NAME.findall(PAGE)) - existing_tests() == set()
