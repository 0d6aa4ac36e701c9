"""`opserve conform repro`: the details of one case's verdict, and a program that runs the case."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from opserve_client.conform.record import Result
from opserve_client.conform.report.content import snippet_template
from opserve_client.conform.selection import suite_named
from opserve_client.conform.show import words_on
from opserve_client.conform.summary import error_words
from opserve_client.conform.targets.target import InfrastructureError
from opserve_kernels.cases.suite import Suite
from opserve_kernels.errors import rejection
from opserve_kernels.verdict.verdict import Element, OutputVerdict, Status

SEARCHED = ("standard", "exhaustive")
"""Suites that are searched for a case by default."""


def case_named(case_id: str, suites: Sequence[str], seed: int | None) -> Suite:
    """Returns the first suite that has the case of an id, with this case alone.

    Raises:
        InfrastructureError: No suite has the case.
    """
    for name in suites:
        suite = suite_named(name, seed)
        for case in suite.cases:
            if case.id == case_id:
                return replace(suite, cases=(case,))
    allowed = (
        f"an id of {' or '.join(suites)}, as `opserve conform cases --suite {suites[0]}` shows"
    )
    raise InfrastructureError(rejection("case", given=case_id, allowed=allowed))


def snippet_of(result: Result, seed: int) -> str:
    """Returns a program that generates the case's inputs, calls a function, shows differences."""
    elements = {
        output.name: [[list(one.index), one.expected] for one in output.first]
        for output in result.verdict.outputs
    }
    text = snippet_template(seed)
    for mark, value in (("@CASE@", result.case.to_json()), ("@ELEMENTS@", elements)):
        text = text.replace(f'"{mark}"', json.dumps(json.dumps(value)))
    return text


def report_lines(result: Result) -> Iterator[str]:
    """Yields the lines of a verdict's details."""
    case, verdict = result.case, result.verdict
    yield f"{verdict.status} {case.id}{words_on(case)}: {verdict.reason}"
    for name, tensor in case.tensors.items():
        strides = f" strides {list(tensor.strides)}" if tensor.strides else ""
        yield f"  {name}: {tensor.dtype} {tensor.format} {list(tensor.shape)}{strides}"
    for name, value in case.arguments.items():
        yield f"  {name}: {value}"
    for output in verdict.outputs:
        yield from _output(output)
    for check in verdict.checks:
        if check.status is not Status.PASSED:
            yield f"{check.name}: {check.reason}"


def _output(output: OutputVerdict) -> Iterator[str]:
    layers = ", ".join(f"{one.name} {'yes' if one.passed else 'no'}" for one in output.layers)
    yield f"{output.name}: {output.status}, {layers}; {error_words(output.worst)}"
    for one in output.first:
        yield f"  {_element(one)}"


def _element(one: Element) -> str:
    return f"{list(one.index)}: {one.got!r} instead of {one.expected!r}, {one.ulp} ULP"
