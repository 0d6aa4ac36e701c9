"""What processes of a desk do: suites, inputs and verdicts, with NumPy and no device."""

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from opserve_kernels.cases.arrays import arrays_of, plain_inputs, typed_outputs, view_of
from opserve_kernels.cases.cache import Cache
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.golden import golden_calls
from opserve_kernels.cases.golden_key import golden_key
from opserve_kernels.cases.projection import Projection
from opserve_kernels.cases.suite import Suite
from opserve_kernels.cases.suites import SUITES
from opserve_kernels.operator import DocumentedRules
from opserve_kernels.verdict.golden_values import Question, goldens_in, questions_of
from opserve_kernels.verdict.judge_case import (
    Golden,
    Results,
    Standards,
    judge_case,
    sized_outputs,
)
from opserve_kernels.verdict.verdict import Verdict
from opserve_server.conformance.answers import CaseInfo, CasePage
from opserve_server.conformance.calls import ListCases, RunSuite
from opserve_server.conformance.choice import wanted_of
from opserve_server.conformance.definitions import Unreadable, own_case
from opserve_server.core.runs import Run

_SUITES_KEPT = 4
_Arrays = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """Where golden values are kept.

    Attributes:
        folder: On disk.
        limit_bytes: Of all files.
    """

    folder: Path
    limit_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Golden values of a call, as the arbiter has made them.

    Attributes:
        key: Of them on the shelf.
        projection: What sums of an output they are; None if they are outputs.
        arrays: What is kept of them.
    """

    key: str
    projection: Projection | None
    arrays: _Arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """What a case must come to.

    Attributes:
        case: The case.
        seed: Of its inputs.
        contract: Revision of the operator's contract.
        standards: Told besides.
        shelf: Where they are kept.
        answers: All of them, if they were not there.
    """

    case: Case
    seed: int
    contract: str
    standards: Standards
    shelf: Shelf
    answers: Sequence[Answer] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the arbiter is to be asked of a call.

    Attributes:
        key: Of its golden values on the shelf.
        projection: What sums of an output they are; None if they are outputs.
        questions: Calls of the profile `reference`.
    """

    key: str
    projection: Projection | None
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Nothing can be said before the arbiter has answered.

    Attributes:
        calls: Those that give the golden values of a case.
    """

    calls: tuple[Asked, ...]


def page_of(asked: ListCases, limit: int) -> CasePage | None:
    """Some cases of a suite; None where the cursor is no case that is chosen."""
    suite, digest, _ = _suite(asked.suite, asked.seed)
    chosen = wanted_of(asked).of(suite.cases)
    ids = [case.id for case in chosen]
    if asked.cursor and asked.cursor not in ids:
        return None
    first = ids.index(asked.cursor) + 1 if asked.cursor else 0
    page = chosen[first : first + limit]
    return CasePage(
        cases=[_told(case) for case in page],
        cursor=page[-1].id if first + limit < len(chosen) else "",
        total=len(chosen),
        digest=digest,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some cases of a run.

    Attributes:
        cases: They.
        total: Cases of the whole run.
        digest: Of the whole suite.
    """

    cases: Sequence[Case]
    total: int
    digest: str


def part_of(run: Run, first: int, count: int) -> Part:
    """The cases of a run from a place on, `count` at most."""
    suite, digest, _ = _suite(run.suite, run.seed)
    chosen = wanted_of(run).of(suite.cases)
    return Part(cases=chosen[first : first + count], total=len(chosen), digest=digest)


def part_of_own(asked: RunSuite, documented_rules: DocumentedRules) -> Part | Unreadable:
    """All cases of a run that the caller defines."""
    cases: dict[str, Case] = {}
    for place, definition in enumerate(asked.definitions):
        found = own_case(definition, documented_rules)
        if isinstance(found, Unreadable):
            return replace(found, place=f"definitions[{place}]: {found.place}")
        cases[found.id] = found
    suite = Suite(name=asked.suite, seed=asked.seed, cases=tuple(cases.values()))
    chosen = wanted_of(asked).of(suite.cases)
    return Part(cases=chosen, total=len(chosen), digest=suite.digest)


def memory_of(case: Case, seed: int) -> Mapping[str, Array]:
    """Flat memory of every tensor before the call, gaps and all."""
    return {name: placed.storage for name, placed in arrays_of(case, seed).items()}


def case_in(suite: str, seed: int, case: str) -> Case | None:
    """The case of an id, if the suite has it."""
    return _suite(suite, seed)[2].get(case)


def inputs_of(case: Case, seed: int) -> Array:
    """The inputs as the bytes of an .npz file."""
    return _packed(plain_inputs(case, arrays_of(case, seed)))


def golden_of(sought: Sought) -> Array | Open:
    """What each output must be, as the bytes of an .npz file."""
    case = sought.case
    found = _goldens(sought, partial(_inputs, case, sought.seed), sized=case.written)
    if isinstance(found, Open):
        return found
    values: dict[str, Array] = {f"values.{name}": golden.values for name, golden in found.items()}
    magnitudes = {
        f"magnitudes.{name}": golden.magnitudes
        for name, golden in found.items()
        if golden.magnitudes is not None
    }
    return _packed(values | magnitudes)


def verdict_on(sought: Sought, outputs: Mapping[str, Array]) -> Verdict | Open:
    """What is said of outputs; those of BF16 may be its bits in uint16."""
    given = typed_outputs(sought.case, outputs)
    results = Results(outputs=[given], before={}, after={})
    return _judged(sought, partial(_inputs, sought.case, sought.seed), results)


def verdict_on_memory(
    sought: Sought, before: Mapping[str, Array], afters: Sequence[Mapping[str, Array]]
) -> Verdict | Open:
    """What is said of memory after equal calls: of all tensors, of outputs after further ones."""
    tensors, written = sought.case.tensors, sought.case.written
    outputs = [{name: view_of(after[name], tensors[name]) for name in written} for after in afters]
    inputs = {name: view_of(before[name], tensors[name]) for name in sought.case.inputs}
    results = Results(outputs=outputs, before=before, after=afters[0])
    return _judged(sought, lambda: inputs, results)


def _judged(sought: Sought, inputs: Callable[[], _Arrays], results: Results) -> Verdict | Open:
    found = _goldens(sought, inputs, sized=sized_outputs(sought.case))
    if isinstance(found, Open):
        return found
    return judge_case(
        sought.case,
        results,
        golden=found,
        contract=sought.contract,
        standards=sought.standards,
    )


def _goldens(
    sought: Sought, inputs: Callable[[], _Arrays], *, sized: Collection[str]
) -> dict[str, Golden] | Open:
    """By output; or what the arbiter must be asked, all of it.

    Args:
        sought: Which.
        inputs: Gives the case's inputs, where golden values are looked for.
        sized: The outputs whose magnitudes are wanted.
    """
    cache, case = _cache(sought.shelf), sought.case
    found: dict[str, Golden] = {}
    for answer in sought.answers:
        cache.put(answer.key, answer.arrays)
        found |= goldens_in(answer.arrays, answer.projection)
    if found:
        return found
    calls = golden_calls(case, inputs(), seed=sought.seed, sized=sized)
    keys = [golden_key(call, contract=sought.contract) for call in calls]
    for call, key in zip(calls, keys, strict=True):
        kept = cache.get(key)
        if kept is None:
            return Open(
                calls=tuple(
                    Asked(key=key, projection=call.projection, questions=(*questions_of(call),))
                    for call, key in zip(calls, keys, strict=True)
                )
            )
        found |= goldens_in(kept, call.projection)
    return found


def _inputs(case: Case, seed: int) -> _Arrays:
    placed = arrays_of(case, seed)
    return {name: placed[name].elements for name in case.inputs}


@lru_cache(maxsize=1)
def _cache(shelf: Shelf) -> Cache:
    return Cache(shelf.folder, shelf.limit_bytes)


@lru_cache(maxsize=_SUITES_KEPT)
def _suite(name: str, seed: int) -> tuple[Suite, str, Mapping[str, Case]]:
    """A suite, its digest and its cases by id."""
    suite = SUITES[name](seed)
    return suite, suite.digest, {case.id: case for case in suite.cases}


def _told(case: Case) -> CaseInfo:
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
    return np.frombuffer(file.getbuffer(), np.uint8)
