"""JUnit XML of runs: a test suite with a test case for each case."""

import re
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from opserve_client.conform.record import Result
from opserve_client.conform.summary import Summary
from opserve_kernels.verdict.verdict import GOOD, Status

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(summary: Summary, path: Path) -> None:
    """Writes the JUnit XML of a run.

    Known failures are skipped test cases. Characters that XML does not allow are left out.
    """
    known = summary.expectations
    suite = Element("testsuite", name=f"opserve.{_text(summary.record.header.suite)}")
    counts: dict[str, int] = dict.fromkeys(("failure", "error", "skipped"), 0)
    for result in summary.record.results:
        case = result.case
        one = SubElement(
            suite,
            "testcase",
            classname=f"{case.operator}.{case.profile}",
            name=case.id,
            time=f"{result.seconds:.6f}",
        )
        kind = _kind(result, is_known=case.id in known.failing)
        if kind:
            counts[kind] += 1
            reason = _text(result.verdict.reason)
            if case.id in known.failing:
                reason = f"known failure: {_text(known.failing[case.id].text)}: {reason}"
            SubElement(one, kind, message=reason, type=result.verdict.status.value).text = reason
        if case.id in known.passing:
            line = _text(known.passing[case.id].text)
            SubElement(one, "system-out").text = f"known failure that passes: {line}"
    suite.set("tests", str(len(summary.record.results)))
    for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(counts[kind]))
    indent(suite)
    ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def _kind(result: Result, *, is_known: bool) -> str:
    status = result.verdict.status
    if status is Status.PASSED:
        return ""
    if is_known or status in GOOD:
        return "skipped"
    return "error" if status is Status.ERROR else "failure"


def _text(text: str) -> str:
    return _NOT_XML.sub("", text)
