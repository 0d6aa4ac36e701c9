"""What processes of a desk do: suites, inputs and verdicts, with NumPy and no device."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from opserve_kernels.cases.arrays import arrays_of, plain_inputs, typed_outputs, view_of
from opserve_kernels.cases.cache import Cache
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.golden import golden_calls
from opserve_kernels.cases.golden_key import golden_key
from opserve_kernels.cases.suite import Suite, matches
from opserve_kernels.cases.suites import SUITES
from opserve_kernels.verdict.golden_values import goldens_in, magnitudes_of, storages_of
from opserve_kernels.verdict.judge_case import Golden, Results, Standards, judge_case
from opserve_kernels.verdict.verdict import Verdict
from opserve_server.conformance.calls import CaseInfo, CasePage, ListCases
from opserve_server.core.runs import Run

_SUITES_KEPT = 4
_Kept = Mapping[str, Array]


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
class Sought:
    """What a case must come to.

    Attributes:
        case: The case.
        seed: Of its inputs.
        contract: Revision of the operator's contract.
        standards: Told besides.
        shelf: Where they are kept.
        computed: What the arbiter has made of those that were not there, by key.
    """

    case: Case
    seed: int
    contract: str
    standards: Standards
    shelf: Shelf
    computed: Mapping[str, _Kept]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A call for the arbiter.

    Attributes:
        key: Of its answer.
        case: The call, on the profile `reference`.
        values: Memory of its tensors, by name.
        magnitudes: The same, with inputs that have no signs.
    """

    key: str
    case: Case
    values: Mapping[str, Array]
    magnitudes: Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Nothing can be said before the arbiter has answered.

    Attributes:
        questions: What it is to be asked.
    """

    questions: tuple[Question, ...]


def page_of(asked: ListCases, limit: int) -> CasePage | None:
    """Some cases of a suite; None where the cursor is no case that is chosen."""
    _, digest, _ = _suite(asked.suite, asked.seed)
    chosen = _chosen(asked)
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
    _, digest, _ = _suite(run.suite, run.seed)
    chosen = [case for case in _chosen(run) if run.profile in {"", case.profile}]
    return Part(cases=chosen[first : first + count], total=len(chosen), digest=digest)


def memory_of(case: Case, seed: int) -> Mapping[str, Array]:
    """Flat memory of every tensor before the call, gaps and all."""
    return {name: placed.storage for name, placed in arrays_of(case, seed).items()}


def case_in(suite: str, seed: int, case: str) -> Case | None:
    """The case of an id, if the suite has it."""
    return _suite(suite, seed)[2].get(case)


def inputs_of(case: Case, seed: int) -> bytes:
    """The inputs as an .npz file."""
    return _packed(plain_inputs(case, arrays_of(case, seed)))


def golden_of(sought: Sought) -> bytes | Open:
    """What each output must be, as an .npz file."""
    found = _goldens(sought)
    if isinstance(found, Open):
        return found
    values = {f"values.{name}": golden.values for name, golden in found.items()}
    return _packed(values | {f"magnitudes.{n}": golden.magnitudes for n, golden in found.items()})


def verdict_on(sought: Sought, outputs: Mapping[str, Array]) -> Verdict | Open:
    """What is said of outputs; those of BF16 may be its bits in uint16."""
    given = typed_outputs(sought.case, outputs)
    return _judged(sought, Results(outputs=[given], before={}, after={}))


def verdict_on_memory(
    sought: Sought, before: Mapping[str, Array], afters: Sequence[Mapping[str, Array]]
) -> Verdict | Open:
    """What is said of memory after equal calls: of all tensors, of outputs after further ones."""
    case = sought.case
    outputs = [
        {name: view_of(after[name], case.tensors[name]) for name in case.written}
        for after in afters
    ]
    return _judged(sought, Results(outputs=outputs, before=before, after=afters[0]))


def _judged(sought: Sought, results: Results) -> Verdict | Open:
    found = _goldens(sought)
    if isinstance(found, Open):
        return found
    return judge_case(
        sought.case,
        results,
        golden=found,
        contract=sought.contract,
        standards=sought.standards,
    )


def _goldens(sought: Sought) -> dict[str, Golden] | Open:
    """By output; or what the arbiter must be asked, all of it."""
    cache = _cache(sought.shelf)
    found: dict[str, Golden] = {}
    missing: list[Question] = []
    for call in golden_calls(sought.case, sought.seed):
        key = golden_key(call, contract=sought.contract)
        if (new := sought.computed.get(key)) is not None:
            cache.put(key, new)
        kept = new or cache.get(key)
        if kept is None:
            magnitudes = storages_of(call.case, magnitudes_of(call.operands))
            values = storages_of(call.case, call.operands)
            question = Question(key=key, case=call.case, values=values, magnitudes=magnitudes)
            missing.append(question)
        else:
            found |= goldens_in(call, kept)
    return Open(questions=tuple(missing)) if missing else found


@lru_cache(maxsize=1)
def _cache(shelf: Shelf) -> Cache:
    return Cache(shelf.folder, shelf.limit_bytes)


@lru_cache(maxsize=_SUITES_KEPT)
def _suite(name: str, seed: int) -> tuple[Suite, str, Mapping[str, Case]]:
    """A suite, its digest and its cases by id."""
    suite = SUITES[name](seed)
    return suite, suite.digest, {case.id: case for case in suite.cases}


def _chosen(asked: ListCases | Run) -> list[Case]:
    return [
        case
        for case in _suite(asked.suite, asked.seed)[0].cases
        if asked.operator in {"", case.operator}
        and (not asked.match or matches(case, [asked.match]))
    ]


def _told(case: Case) -> CaseInfo:
    return CaseInfo(
        id=case.id,
        operator=case.operator,
        profile=case.profile,
        expect=case.expect,
        tags=case.tags,
        source=case.source,
    )


def _packed(arrays: Mapping[str, Array]) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()
