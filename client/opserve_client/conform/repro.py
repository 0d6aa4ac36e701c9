"""One case again, alone: its verdict in words, and a program of its own that makes its inputs."""

import json
from collections.abc import Iterator, Sequence

from opserve_client.conform.record import Result
from opserve_client.conform.report.content import snippet_template
from opserve_client.conform.selection import suite_named
from opserve_client.conform.show import words_on
from opserve_client.conform.targets.target import InfrastructureError
from opserve_kernels.cases.case import Case
from opserve_kernels.verdict.verdict import Element, OutputVerdict, Status

SEARCHED = ("standard", "exhaustive")
"""Suites that a case is looked for in, where none is named."""


def case_named(case_id: str, suites: Sequence[str], seed: int | None) -> tuple[Case, int]:
    """The case of an id, and the seed of its suite.

    Raises:
        InfrastructureError: No suite has it.
    """
    for name in suites:
        suite = suite_named(name, seed)
        for case in suite.cases:
            if case.id == case_id:
                return case, suite.seed
    raise InfrastructureError(f"case: given {case_id}, allowed a case of {' or '.join(suites)}")


def snippet_of(result: Result, seed: int) -> str:
    """A program that makes the case's inputs, calls a function, and shows what was wrong."""
    elements = {
        output.name: [[list(one.index), one.expected] for one in output.first]
        for output in result.verdict.outputs
    }
    text = snippet_template(seed)
    for mark, value in (("@CASE@", result.case.to_json()), ("@ELEMENTS@", elements)):
        text = text.replace(f'"{mark}"', json.dumps(json.dumps(value)))
    return text


def told(result: Result) -> Iterator[str]:
    """The verdict, a line each."""
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
    yield f"{output.name}: {output.status}, {layers}; {output.worst:.3g} of the tolerance used"
    for one in output.first:
        yield f"  {_element(one)}"


def _element(one: Element) -> str:
    return f"{list(one.index)}: {one.got!r} instead of {one.expected!r}, {one.ulp} ULP"
