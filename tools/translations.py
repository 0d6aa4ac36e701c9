"""Compares Chinese pages with the English pages that they translate.

`first-call.zh-CN.md` translates `first-call.md` in the same folder. Both have the same code blocks
and links. A comment at the end of the Chinese page records a digest of each English section, so
that a change of an English section is reported until the Chinese page is revised.
"""

import argparse
import re
import sys
from difflib import ndiff
from hashlib import sha256
from pathlib import Path

from tools.markdown_pages import code_blocks, links, sections

ROOT = Path(__file__).resolve().parent.parent
CHINESE = ".zh-CN.md"
DIGITS = 12
RECORD = re.compile(r"\n<!-- [^\n]+\n((?:[0-9a-f]{12} [^\n]+\n)*)-->\n\Z")
HEAD = "<!-- English sections of this translation; after a revision: make translations"


def main() -> int:
    """Prints differences; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accept", action="store_true", help="record the digests")
    accept = parser.parse_args().accept
    found: list[str] = []
    for path in translations():
        english, chinese = english_page(path).read_text("utf-8"), path.read_text("utf-8")
        if accept:
            chinese = accepted(english, chinese)
            path.write_text(chinese, "utf-8")
        found += [f"{path.relative_to(ROOT)}: {line}" for line in drift(english, chinese)]
    print("".join(f"{line}\n" for line in found), end="")
    return 1 if found else 0


def translations() -> list[Path]:
    """The Chinese pages."""
    places = ("*", "docs/**/*", "kernels/**/*")
    return [path for place in places for path in sorted(ROOT.glob(f"{place}{CHINESE}"))]


def english_page(chinese: Path) -> Path:
    """The page that a Chinese page translates."""
    return chinese.with_name(chinese.name.replace(CHINESE, ".md"))


def drift(english: str, chinese: str) -> list[str]:
    """Differences of the Chinese page; lines with + are in the English page only."""
    changed = differences(digests(english), recorded(chinese))
    outdated = dict.fromkeys(line[len("+ ") + DIGITS + 1 :] for line in changed)
    return [
        *(f"code: {line}" for line in differences(code(english), code(chinese))),
        *(f"link: {line}" for line in differences(targets(english), targets(chinese))),
        *(f"translate again: {heading}" for heading in outdated),
    ]


def accepted(english: str, chinese: str) -> str:
    """The Chinese page with the digests of the English sections."""
    record = "".join(f"{line}\n" for line in digests(english))
    return f"{RECORD.sub('', chinese).rstrip()}\n\n{HEAD}\n{record}-->\n"


def differences(english: list[str], chinese: list[str]) -> list[str]:
    """Lines of one list only, in their order."""
    return [line for line in ndiff(chinese, english) if line.startswith(("+", "-"))]


def code(page: str) -> list[str]:
    """Lines of the code blocks, with the fences."""
    return [line for block in code_blocks(page) for line in block.split("\n")]


def targets(page: str) -> list[str]:
    """Targets of the links, where a Chinese page counts as its English one."""
    return [link.replace(CHINESE, ".md") for link in links(page)]


def digests(english: str) -> list[str]:
    """Digest and heading of each section; line breaks and code blocks do not count."""
    return [f"{digest(f'{heading} {text}')} {heading}" for heading, text in sections(english)]


def digest(section: str) -> str:
    """The first digits of the SHA-256 of the words."""
    return sha256(" ".join(section.split()).encode()).hexdigest()[:DIGITS]


def recorded(chinese: str) -> list[str]:
    """Digests at the end of the Chinese page."""
    record = RECORD.search(chinese)
    return record[1].splitlines() if record else []


if __name__ == "__main__":
    sys.exit(main())
