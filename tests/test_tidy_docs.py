"""Documentation: links lead somewhere, each page is in the navigation, and translations agree."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from test_tidy import REPOSITORY, files, text
from tools.markdown_pages import CODE, headings, links, prose
from tools.translations import accepted, drift, english_page, translations

INDEX = Path("docs/index.md")
KINDS = ("tutorial", "how-to", "reference", "explanation")
UNLISTED = ("docs/decisions", "docs/ci", "docs/grafana", "docs/prometheus")
"""Folders of docs/ that the index need not list file by file."""
README_LINES = 100
STILTED = re.compile(
    r"\b(?:told|tells?|whoever|nobody|somebody|asks?|asked|stranger|refus\w+|face|desk)\b",
    re.IGNORECASE,
)
"""Words with a plainer standard term; generated pages and the changelog have texts of the code."""
GENERATED = {
    "settings.md",
    "public-surface.md",
    "conformance-faults.md",
    "CHANGELOG.md",
    "STYLE.md",
}
MENTION = re.compile(r"\bdocs/[a-z0-9/-]+\.(?:md|yml|svg|png|json)\b")
FOREIGN = ("http://", "https://", "mailto:")
PAGES = files("*.md")
DOCS = [path for path in PAGES if path.parts[0] == "docs"]


def anchors(page: str) -> set[str]:
    """The anchors that GitHub and the built site give to the page's headings."""
    counts: Counter[str] = Counter()
    found = set[str]()
    for heading in headings(page):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        anchor = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        found.add(f"{anchor}-{counts[anchor]}" if counts[anchor] else anchor)
        counts[anchor] += 1
    return found


def dead(path: Path, page: str) -> Iterator[str]:
    """Links of a page, as it would be at a path, that lead nowhere."""
    for link in links(page):
        if link.startswith(FOREIGN):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (REPOSITORY / path.parent / name).resolve() if name else REPOSITORY / path
        if not (target.exists() and target.is_relative_to(REPOSITORY)):
            yield f"{path}: {link}"
        elif anchor and anchor not in anchors(target.read_text() if name else page):
            yield f"{path}: {link} (no such heading)"


def outside(index: str, pages: list[Path]) -> list[Path]:
    """Pages of docs/ that the index does not link."""
    linked = {(INDEX.parent / link.partition("#")[0]) for link in links(index)}
    listed = [path for path in pages if not str(path).startswith(UNLISTED)]
    return [path for path in listed if path != INDEX and path not in linked]


def test_no_link_is_dead() -> None:
    assert len(PAGES) > 60
    assert [found for path in PAGES for found in dead(path, text(path))] == []


@pytest.mark.parametrize(
    ("link", "is_dead"),
    [
        ("reference/settings.md", False),
        ("reference/settings.md#settings", False),
        ("../README.md", False),
        ("https://example.org/nothing.md", False),
        ("#here", False),
        ("settings.md", True),
        ("reference/settings.md#no-such-heading", True),
        ("../../outside.md", True),
        ("#there", True),
    ],
)
def test_planted_link_is_found_where_it_is_dead(link: str, *, is_dead: bool) -> None:
    page = f"# A page\n\n## Here\n\nSee [it]({link}).\n"
    assert bool(list(dead(INDEX, page))) == is_dead


def test_links_in_code_are_no_links() -> None:
    assert links("`[a](b.md)`\n\n```sh\n[c](d.md)\n```\n[e](f.md)") == ["f.md"]


def test_headings_have_the_anchors_of_github() -> None:
    page = "# `make` me, a-b!\n\n## Twice\n\n## Twice\n\n```sh\n# no heading\n```\n"
    assert anchors(page) == {"make-me-a-b", "twice", "twice-1"}


def test_every_page_is_in_the_navigation() -> None:
    assert outside(text(INDEX), DOCS) == []


def test_planted_page_outside_the_navigation_is_found() -> None:
    orphan, decision = Path("docs/how-to/orphan.md"), Path("docs/decisions/9999-new.md")
    assert outside(text(INDEX), [orphan, decision]) == [orphan]


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_of_a_kind_names_its_readers_at_the_top(kind: str) -> None:
    pages = files(f"docs/{kind}/*.md")
    assert pages
    assert [path for path in pages if not re.match(r"# .+\n\n(?:For |面向)", text(path))] == []


def test_every_page_of_docs_has_a_kind() -> None:
    folders = {path.parent for path in DOCS} - {Path(name) for name in UNLISTED}
    assert folders == {INDEX.parent, *(INDEX.parent / kind for kind in KINDS)}


def test_every_page_that_a_file_names_exists() -> None:
    sources = [path for path in files("*") if path.suffix in {".py", ".md", ".proto", ".yml"}]
    named = {
        (path, mention)
        for path in (*sources, Path("Makefile"), Path(".ci/run"))
        if path.name not in {"CHANGELOG.md", Path(__file__).name}  # a history keeps old names
        for mention in MENTION.findall(text(path))
    }
    assert len(named) > 50
    assert [pair for pair in named if not (REPOSITORY / pair[1]).exists()] == []


def test_readme_is_short() -> None:
    assert len(text(Path("README.md")).splitlines()) <= README_LINES


def test_pages_use_standard_terms() -> None:
    pages = [path for path in PAGES if path in DOCS or path.parent == Path()]
    written = [
        path for path in pages if path.name not in GENERATED and "decisions" not in path.parts
    ]
    found = {(path, word) for path in written for word in STILTED.findall(wording(text(path)))}
    assert found == set()


def wording(page: str) -> str:
    """Sentences of the page: neither code nor tables, which quote names and messages."""
    lines = CODE.sub("", prose(page)).splitlines()
    return "\n".join(line for line in lines if not line.startswith("|"))


TRANSLATED = (
    *("README.md", "docs/tutorial/first-call.md"),
    *(
        f"kernels/opserve_kernels/operators/{operator}/README.md"
        for operator in (
            *("convolution", "conv_depthwise2d", "conv_tbc", "conv_tbc_backward", "im2col"),
        )
    ),
)


def test_translated_pages_link_to_the_chinese_and_back() -> None:
    chinese = {path.relative_to(REPOSITORY): path for path in translations()}
    assert {english_page(path) for path in chinese} == {Path(page) for page in TRANSLATED}
    for path, full_path in chinese.items():
        english = english_page(full_path)
        assert links(text(path))[0] == english.name
        assert links(text(english))[0] == path.name


@pytest.mark.parametrize("path", translations(), ids=lambda path: path.name)
def test_translation_has_not_drifted(path: Path) -> None:
    found = drift(text(english_page(path)), text(path))
    assert found == [], f"revise {path.name}, then run make translations"


ENGLISH = """# Title

See [one](one.md) and [two](../two.md#part).

## Run

Text of
a section.

```sh
# a comment
run --fast
```
"""
CHINESE = """# 标题

见 [一](one.zh-CN.md)、[二](../two.md#part)。

## 运行

正文。

```sh
# a comment
run --fast
```
"""


def test_accepted_translation_has_not_drifted() -> None:
    chinese = accepted(ENGLISH, CHINESE)
    assert drift(ENGLISH, chinese) == []
    assert accepted(ENGLISH, chinese) == chinese


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("run --fast", "run", ["code: - run --fast", "code: + run"]),
        ("run --fast", "run --fast ", ["code: - run --fast", "code: + run --fast "]),
        ("```\n", "```\n\n```sh\nstop\n```\n", ["code: + ```sh", "code: + stop", "code: + ```"]),
        ("(one.md)", "(1.md)", ["link: - one.md", "link: + 1.md", "translate again: Title"]),
        ("of\na section", "of a section", []),
        ("a section", "the section", ["translate again: Run"]),
        ("## Run", "## Start", ["translate again: Run", "translate again: Start"]),
        ("\n## Run\n", "", ["translate again: Title", "translate again: Run"]),
        ("## Run", "## New\n\n## Run", ["translate again: New"]),
    ],
)
def test_planted_drift_is_found(old: str, new: str, found: list[str]) -> None:
    chinese = accepted(ENGLISH, CHINESE)
    assert drift(ENGLISH.replace(old, new), chinese) == found


def test_translation_without_digests_is_found() -> None:
    assert drift(ENGLISH, CHINESE) == ["translate again: Title", "translate again: Run"]


def test_acceptance_replaces_the_digests_alone() -> None:
    changed = ENGLISH.replace("a section", "the section").replace("run --fast", "run")
    again = accepted(changed, accepted(ENGLISH, CHINESE))
    assert again.startswith(CHINESE)
    assert drift(changed, again) == ["code: - run --fast", "code: + run"]
