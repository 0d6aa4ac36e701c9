"""Reported runs: checks on results that other programs judged."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from opserve_kernels.cases.suite import check_seed
from opserve_kernels.conformance.record import (
    REASON_CHARACTERS,
    VERDICT_CHARACTERS,
    WORST,
    CaseResult,
)
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.verdict.json_form import from_json, to_json
from opserve_kernels.verdict.verdict import Status
from opserve_server.calls import MEMBERS_LIMIT, malformed
from opserve_server.conformance.calls import ReportRun
from opserve_server.conformance.request_checks import (
    TARGET,
    TEXT_LIMIT,
    check_like,
    check_text,
)

SECONDS = 1e6
"""Longest duration of a call, seconds."""
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_PART, _PART_CHARACTERS = 500, 2**18
"""Results, and characters of verdicts, that are checked at once: about a tenth of a second."""


def check_report(request: ReportRun) -> None:
    """Checks the fields of a reported run except its results."""
    check_like("target", request.target, TARGET)
    check_like("digest", request.digest, _DIGEST)
    check_seed(request.seed)
    for name, text in (("suite", request.suite), ("tool", request.tool)):
        check_text(name, text)
    if not request.suite:
        raise malformed("suite", given="nothing", allowed="its name")
    if not request.results:
        raise malformed("results", given="none", allowed=f"1 to {MEMBERS_LIMIT}")
    cases = {result.case for result in request.results}
    if len(cases) < len(request.results):
        raise malformed("results", given="a case twice", allowed="each case once")


def parts_of(results: Sequence[CaseResult]) -> Iterator[Sequence[CaseResult]]:
    """Splits results into parts that are short enough for other tenants to wait."""
    part, characters = list[CaseResult](), 0
    for result in results:
        part.append(result)
        characters += len(result.verdict)
        if len(part) == _PART or characters > _PART_CHARACTERS:
            yield part
            part, characters = [], 0
    if part:
        yield part


def checked(results: Sequence[CaseResult]) -> list[CaseResult]:
    """Results in the form in which they are stored; verdicts are serialised anew.

    Raises:
        InvalidArgument: 100000, the first invalid result.
    """
    return [replace(result, verdict=_verdict_in(result)) for result in map(_plain, results)]


def _plain(result: CaseResult) -> CaseResult:
    """A result whose members beside the verdict are within bounds."""
    if not TARGET.fullmatch(result.case):
        raise _wrong(result, "case", result.case, TARGET.pattern)
    if result.status not in set(Status):
        raise _wrong(result, "status", result.status, ", ".join(Status))
    if len(result.reason) > REASON_CHARACTERS or not result.reason.isprintable():
        allowed = f"at most {REASON_CHARACTERS} printable characters"
        raise _wrong(result, "reason", result.reason, allowed)
    if not 0 <= result.worst <= WORST:
        raise _wrong(result, "worst", result.worst, f"0 to {WORST:g}")
    if not 0 <= result.seconds <= SECONDS:
        raise _wrong(result, "seconds", result.seconds, f"0 to {SECONDS:g}")
    return result


def _verdict_in(result: CaseResult) -> str:
    """The verdict's text; empty for a passed case, or without one."""
    if not result.verdict:
        return ""
    try:
        _check_length(result, result.verdict)
        verdict = from_json(json.loads(result.verdict))
    except (ValueError, RecursionError) as error:
        raise _wrong(result, "verdict", error, "a verdict as JSON") from None
    if (verdict.case, verdict.status) != (result.case, result.status):
        given = f"that of {verdict.case}, {verdict.status}"
        raise _wrong(result, "verdict", given, "that of its result")
    if verdict.status is Status.PASSED:
        return ""
    text = json.dumps(to_json(verdict), allow_nan=False)
    _check_length(result, text)
    return text


def _check_length(result: CaseResult, text: str) -> None:
    if len(text) > VERDICT_CHARACTERS:
        given = f"{len(text)} characters"
        raise _wrong(result, "verdict", given, f"at most {VERDICT_CHARACTERS} characters")


def _wrong(result: CaseResult, member: str, given: object, allowed: str) -> InvalidArgument:
    """An error that quotes untrusted text only in shortened form."""
    case, shown = (repr(str(text)[:TEXT_LIMIT]) for text in (result.case, given))
    return malformed(f"{member} of {case}", given=shown, allowed=allowed)
