"""Names of runs in the store, and what they keep from being forgotten."""

from dataclasses import replace

import pytest

from opserve_kernels.conformance.comparison import Outcome
from opserve_kernels.conformance.record import CaseResult
from opserve_kernels.verdict.verdict import Status
from opserve_server.core.errors import HandleNotFound, LimitExceeded
from opserve_server.core.runs import Baseline, Origin, Run
from opserve_server.store import runs as kept
from opserve_server.store.store import Store

RUN = Run(
    id="a" * 16,
    tenant="lab",
    target="mine",
    suite="smoke",
    seed=3,
    counts={"PASSED": 1},
    created_at=100.0,
    seen_at=100.0,
    origin=Origin.REPORTED,
    tool="opserve 1",
)
MANY = [
    CaseResult(case=f"case{n}", status="FAILED", worst=float(n), verdict="v" * n) for n in range(7)
]


def run(number: int, tenant: str = "lab") -> Run:
    run_id = f"{tenant:0<8}{number:08x}"
    return replace(RUN, id=run_id, tenant=tenant, created_at=100.0 + number)


def named(name: str, of: Run) -> Baseline:
    return Baseline(name=name, run=of.id, set_at=5.0)


async def ids(store: Store, tenant: str = "lab") -> list[str]:
    found = await store.runs.of(tenant, target="", before=None, limit=99)
    return [one.id for one in found]


async def test_a_whole_run_is_added_with_its_results(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_ROWS", 3)
    await store.runs.begin(RUN, MANY, kept=5)
    assert await store.runs.get("lab", RUN.id) == RUN
    found = await store.runs.results(RUN.id, status="", after=-1, limit=9)
    assert [result for _, result in found] == MANY
    outcomes = await store.runs.outcomes(RUN.id)
    assert list(outcomes.items()) == [
        (one.case, Outcome(status=Status.FAILED, worst=one.worst)) for one in MANY
    ]


async def test_a_run_whose_results_cannot_be_stored_does_not_exist(store: Store) -> None:
    broken = [*MANY, replace(MANY[0], worst=None)]  # type: ignore[arg-type]  # the table refuses it
    with pytest.raises(Exception, match=r".+"):
        await store.runs.begin(RUN, broken, kept=5)
    assert await ids(store) == []


async def test_long_verdicts_are_listed_in_shorter_pages(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_PAGE_BYTES", 5)
    await store.runs.begin(RUN, MANY, kept=5)
    pages = list[list[int]]()
    after = -1
    while page := await store.runs.results(RUN.id, status="", after=after, limit=9):
        pages.append([place for place, _ in page])
        after = page[-1][0]
    assert pages == [[0, 1, 2], [3], [4], [5], [6]]


async def test_reasons_count_with_the_bytes_that_they_may_have(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [replace(one, verdict="", reason="\N{GRINNING FACE}") for one in MANY]
    monkeypatch.setattr(kept, "_PAGE_BYTES", 2 * len(results[0].reason.encode()) + 1)
    await store.runs.begin(RUN, results, kept=5)
    page = await store.runs.results(RUN.id, status="", after=-1, limit=9)
    assert [place for place, _ in page] == [0, 1]


async def test_a_name_moves_to_another_run_and_can_be_removed(store: Store) -> None:
    first, second = run(1), run(2)
    for one in (first, second):
        await store.runs.begin(one, kept=5)
    baselines = store.runs.baselines
    for baseline in (named("main", first), named("best", first), named("main", second)):
        await baselines.set("lab", baseline, limit=2)
    assert list(await baselines.of("lab")) == [named("best", first), named("main", second)]
    assert await baselines.get("lab", "main") == named("main", second)
    await baselines.delete("lab", "main")
    await baselines.delete("lab", "main")
    assert await baselines.get("lab", "main") is None


async def test_names_of_a_tenant_are_limited(store: Store) -> None:
    await store.runs.begin(RUN, kept=5)
    await store.runs.baselines.set("lab", named("one", RUN), limit=1)
    await store.runs.baselines.set("lab", named("one", RUN), limit=1)
    with pytest.raises(LimitExceeded, match="has 1 baselines, and the limit is 1: delete one"):
        await store.runs.baselines.set("lab", named("two", RUN), limit=1)


async def test_no_other_tenant_names_a_run_or_sees_its_name(store: Store) -> None:
    await store.runs.begin(RUN, kept=5)
    await store.runs.baselines.set("lab", named("main", RUN), limit=5)
    with pytest.raises(HandleNotFound):
        await store.runs.baselines.set("mill", named("main", RUN), limit=5)
    await store.runs.baselines.delete("mill", "main")
    assert await store.runs.baselines.get("mill", "main") is None
    assert list(await store.runs.baselines.of("mill")) == []
    assert await store.runs.baselines.get("lab", "main") is not None


async def test_runs_with_a_name_are_kept_beside_the_newest(store: Store) -> None:
    other = run(0, tenant="mill")
    await store.runs.begin(other, kept=2)
    await store.runs.begin(run(0), MANY, kept=2)
    await store.runs.baselines.set("lab", named("main", run(0)), limit=5)
    for number in range(1, 5):
        await store.runs.begin(run(number), kept=2)
    assert await ids(store) == [run(number).id for number in (4, 3, 0)]
    assert len(await store.runs.outcomes(run(0).id)) == len(MANY)
    await store.runs.baselines.set("lab", named("main", run(4)), limit=5)
    await store.runs.begin(run(5), kept=2)
    assert await ids(store) == [run(number).id for number in (5, 4)]
    assert await ids(store, "mill") == [other.id]
