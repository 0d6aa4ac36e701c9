"""Checks of conformance requests."""

import re
from collections.abc import Mapping

from opserve_kernels.cases.case import DRAWN_KINDS
from opserve_kernels.cases.reading import LINE_CHARACTERS
from opserve_kernels.cases.suite import check_seed
from opserve_kernels.cases.suites import SUITES
from opserve_kernels.conformance.selection import Wanted
from opserve_kernels.errors import shortened
from opserve_kernels.profiles import PROFILES
from opserve_kernels.user_input import choices
from opserve_server.calls import malformed
from opserve_server.conformance.calls import ListCases, OfAnyCase, ReadCases, RunSuite
from opserve_server.conformance.definitions import FORMS, LINES_LIMIT
from opserve_server.core.errors import HandleNotFound
from opserve_server.core.runs import Run

TEXT_LIMIT = 128
"""Characters of any name in a request."""
TARGET = re.compile(r"[A-Za-z0-9._:/@+-]{1,128}")
RUN = re.compile("[0-9a-f]{16}")
BASELINE = re.compile(r"(?![0-9a-f]{16}$)[A-Za-z0-9._+-]{1,64}")
"""A baseline's name never looks like the id of a run."""
_DIGEST = re.compile("[0-9a-f]{64}")


def check_suite(suite: str, seed: int) -> None:
    """Rejects an unknown suite or an invalid seed."""
    if suite not in SUITES:
        raise HandleNotFound("suite", suite[:TEXT_LIMIT], allowed=choices(SUITES, suite))
    check_seed(seed)


def check_own(request: OfAnyCase) -> None:
    """Rejects a definition beside the name of a case, a long one, or an invalid seed."""
    if request.suite or request.case or not request.definition:
        given = "a suite or a case besides" if request.definition else "none, and no suite"
        raise malformed("definition", given=given, allowed="one, or a suite and a case")
    _check_length("definition", request.definition)
    check_seed(request.seed)


def check_own_suite(request: RunSuite) -> None:
    """Rejects too many definitions, a missing or reserved name of theirs, or an invalid seed."""
    if (given := len(request.definitions)) > LINES_LIMIT:
        raise malformed("definitions", given=f"{given} of them", allowed=f"at most {LINES_LIMIT}")
    check_like("suite", request.suite, TARGET)
    if request.suite in SUITES:
        allowed = f"a name for the definitions, none of {', '.join(SUITES)}"
        raise malformed("suite", given=request.suite, allowed=allowed)
    check_seed(request.seed)


def check_lines(request: ReadCases) -> None:
    """Rejects an unknown format, or too many lines."""
    for name, given, known in (
        ("form", request.form, FORMS),
        ("profile", request.profile, ("", *PROFILES)),
        ("fill", request.fill, ("", *DRAWN_KINDS)),
    ):
        if given not in known:
            names = list(filter(None, known))
            raise malformed(name, given=given, allowed=choices(names, given))
    _check_length("text", request.text)
    if (lines := len(request.text.splitlines())) > LINES_LIMIT:
        raise malformed("text", given=f"{lines} lines", allowed=f"at most {LINES_LIMIT}")


def selection_of(request: ListCases | Run | RunSuite) -> Wanted:
    """Checked conditions on cases; empty ones exclude nothing."""
    check_text("match", request.match)
    return Wanted(
        operators=(request.operator,) if request.operator else (),
        patterns=(request.match,) if request.match else (),
        profile="" if isinstance(request, ListCases) else request.profile,
    )


def page_limit(given: int, default: int, *, most: int) -> int:
    """Entries of a page; 0 means the default."""
    if not 0 <= given <= most:
        raise malformed("limit", given=given, allowed=f"0 to {most}")
    return given or default


def check_like(name: str, given: str, allowed: re.Pattern[str]) -> None:
    """Rejects a text that does not match a pattern."""
    if not allowed.fullmatch(given):
        raise malformed(name, given=repr(given), allowed=allowed.pattern)


def check_text(name: str, given: str) -> None:
    """Rejects a long text, and characters that no name has and the store rejects."""
    if len(given) > TEXT_LIMIT or not given.isprintable():
        allowed = f"at most {TEXT_LIMIT} printable characters"
        raise malformed(name, given=repr(given), allowed=allowed)


def _check_length(name: str, text: str) -> None:
    if len(text) > LINE_CHARACTERS:
        allowed = f"at most {LINE_CHARACTERS}"
        raise malformed(name, given=f"{len(text)} characters", allowed=allowed)


def check_digests(digests: Mapping[str, str], limit: int) -> None:
    """Rejects an invalid SHA-256, or too many of them."""
    if len(digests) > limit:
        raise malformed("digests", given=f"{len(digests)} of them", allowed=f"at most {limit}")
    for name, digest in digests.items():
        if not _DIGEST.fullmatch(digest):
            allowed = "64 digits of 0-9 and a-f"
            raise malformed(f"digests.{shortened(name)}", given=digest, allowed=allowed)
