"""Tasks of the conformance workers: suites, inputs and verdicts, in NumPy without a device."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from opserve_kernels.cases.arrays import (
    arrays_of,
    inputs_in,
    memory_of,
    plain_inputs,
    typed_outputs,
)
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.suite import Suite
from opserve_kernels.cases.suites import SUITES
from opserve_kernels.conformance.expected import ReferenceNeeded, Task, arrays_in, expected_values
from opserve_kernels.conformance.trial import verdict_on
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import DocumentedRules
from opserve_kernels.verdict.judge_case import Results
from opserve_kernels.verdict.verdict import Verdict
from opserve_server.calls import malformed
from opserve_server.conformance.answers import CaseInfo, CasePage
from opserve_server.conformance.calls import ListCases, RunSuite
from opserve_server.conformance.definitions import own_case
from opserve_server.conformance.request_checks import selection_of
from opserve_server.core.runs import Run

_SUITES_KEPT = 4


def page_of(request: ListCases, limit: int) -> CasePage | None:
    """One page of a suite's cases; None where the cursor is not a selected case."""
    suite, digest, _ = _suite(request.suite, request.seed)
    chosen = selection_of(request).of(suite.cases)
    ids = [case.id for case in chosen]
    if request.cursor and request.cursor not in ids:
        return None
    first = ids.index(request.cursor) + 1 if request.cursor else 0
    page = chosen[first : first + limit]
    return CasePage(
        cases=[_case_info(case) for case in page],
        cursor=page[-1].id if first + limit < len(chosen) else "",
        total=len(chosen),
        digest=digest,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some cases of a run.

    Attributes:
        cases: The cases.
        total: Cases of the whole run.
        digest: Digest of the whole suite.
    """

    cases: Sequence[Case]
    total: int
    digest: str


def part_of(run: Run, first: int, count: int) -> Part:
    """The cases of a run from a position on, `count` at most."""
    suite, digest, _ = _suite(run.suite, run.seed)
    chosen = selection_of(run).of(suite.cases)
    return Part(cases=chosen[first : first + count], total=len(chosen), digest=digest)


def part_of_own(request: RunSuite, documented_rules: DocumentedRules) -> Part:
    """All cases of a run that the caller defines.

    Raises:
        InvalidArgument: 100000, a definition is invalid, or its call does not have the stated
            outcome.
    """
    cases: dict[str, Case] = {}
    for place, definition in enumerate(request.definitions):
        try:
            found = own_case(definition, documented_rules)
        except InvalidArgument as error:
            name = f"definitions[{place}]: {error.parameter}"
            raise malformed(name, given=error.given, allowed=error.allowed) from None
        cases[found.id] = found
    suite = Suite(name=request.suite, seed=request.seed, cases=tuple(cases.values()))
    chosen = selection_of(request).of(suite.cases)
    return Part(cases=chosen, total=len(chosen), digest=suite.digest)


def case_in(suite: str, seed: int, case: str) -> Case | None:
    """The case with an id, if the suite has it."""
    return _suite(suite, seed)[2].get(case)


def inputs_of(case: Case, seed: int) -> Array:
    """The inputs as the bytes of an .npz file."""
    return _packed(plain_inputs(case, arrays_of(case, seed)))


def expected_of(task: Task) -> Array | ReferenceNeeded:
    """The expected values as the bytes of an .npz file."""
    found = expected_values(task, partial(_inputs, task), sized=task.case.written)
    return found if isinstance(found, ReferenceNeeded) else _packed(arrays_in(found))


def verdict_on_outputs(task: Task, outputs: Mapping[str, Array]) -> Verdict | ReferenceNeeded:
    """The verdict on outputs; outputs of BF16 may be its bits in uint16."""
    given = typed_outputs(task.case, outputs)
    return verdict_on(task, partial(_inputs, task), Results(outputs=[given], before={}, after={}))


def _inputs(task: Task) -> Mapping[str, Array]:
    return inputs_in(task.case, memory_of(task.case, task.seed))


@lru_cache(maxsize=_SUITES_KEPT)
def _suite(name: str, seed: int) -> tuple[Suite, str, Mapping[str, Case]]:
    """A suite, its digest and its cases by id."""
    suite = SUITES[name](seed)
    return suite, suite.digest, {case.id: case for case in suite.cases}


def _case_info(case: Case) -> CaseInfo:
    return CaseInfo(
        id=case.id,
        operator=case.operator,
        profile=case.profile,
        expect=case.expect,
        tags=case.tags,
        source=case.source,
    )


def _packed(arrays: Mapping[str, Array]) -> Array:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return np.frombuffer(file.getvalue(), np.uint8)
