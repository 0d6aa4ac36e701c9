"""Parts of a Markdown page: code blocks, prose, links and sections."""

import re

FENCE = re.compile(r"^(```+)[^\n]*\n.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(\s*<?([^)>\s]+)>?[^)]*\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def code_blocks(page: str) -> list[str]:
    """Blocks of code with their fences."""
    return [block[0] for block in FENCE.finditer(page)]


def prose(page: str) -> str:
    """The page without blocks of code."""
    return FENCE.sub("", page)


def links(page: str) -> list[str]:
    """Targets of the page's links and pictures."""
    return LINK.findall(CODE.sub("", prose(page)))


def headings(page: str) -> list[str]:
    """Headings of every level."""
    return HEADING.findall(prose(page))


def sections(page: str) -> list[tuple[str, str]]:
    """Each heading with the prose up to the next one."""
    _, *parts = HEADING.split(prose(page))
    return list(zip(parts[::2], parts[1::2], strict=True))
