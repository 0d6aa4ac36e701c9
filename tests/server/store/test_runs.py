"""Runs of suites in the store: each is its tenant's alone, and the oldest go."""

from dataclasses import replace

from opserve_kernels.conformance.record import CaseResult
from opserve_server.core.runs import Baseline, Run, RunState
from opserve_server.store.store import Store
from server.store.samples import ACME, entry

BEGUN = Run(
    id="a" * 16,
    tenant="lab",
    target="mine",
    suite="smoke",
    seed=3,
    counts={},
    created_at=100.0,
    seen_at=100.0,
)


def result(case: str, status: str = "PASSED") -> CaseResult:
    return CaseResult(case=case, status=status, reason="", worst=0.5, seconds=0.1, verdict="{}")


def run(number: int, **others: object) -> Run:
    named = replace(BEGUN, id=f"{number:016x}", created_at=100.0 + number)
    return replace(named, **others)  # type: ignore[arg-type]  # its own fields


async def test_a_run_grows_with_its_results(store: Store) -> None:
    await store.runs.begin(BEGUN, kept=5)
    assert await store.runs.get("lab", BEGUN.id) == BEGUN
    some = [(0, result("one")), (1, result("two", "FAILED")), (2, result("three"))]
    counts = {"PASSED": 2, "FAILED": 1}
    ended = replace(BEGUN, state=RunState.ENDED, cases=3, counts=counts, worst=0.5, ended_at=101.0)
    await store.runs.add(ended, some)
    assert await store.runs.get("lab", BEGUN.id) == ended
    assert list(await store.runs.results(BEGUN.id, status="", after=-1, limit=9)) == some
    assert list(await store.runs.results(BEGUN.id, status="FAILED", after=-1, limit=9)) == some[1:2]
    assert list(await store.runs.results(BEGUN.id, status="", after=0, limit=1)) == some[1:2]


async def test_no_other_tenant_sees_a_run(store: Store) -> None:
    await store.runs.begin(BEGUN, kept=5)
    await store.runs.begin(replace(BEGUN, id="b" * 16, tenant="mill"), kept=5)
    assert await store.runs.get("mill", BEGUN.id) is None
    (theirs,) = await store.runs.of("mill", target="", before=None, limit=9)
    assert theirs.id == "b" * 16


async def test_runs_are_listed_by_target_the_newest_first_in_pages(store: Store) -> None:
    for number in range(5):
        target = "odd" if number % 2 else "even"
        await store.runs.begin(run(number, target=target), kept=9)
    first = await store.runs.of("lab", target="", before=None, limit=2)
    assert [one.created_at for one in first] == [104.0, 103.0]
    then = await store.runs.of("lab", target="", before=first[-1], limit=9)
    assert [one.created_at for one in then] == [102.0, 101.0, 100.0]
    odd = await store.runs.of("lab", target="odd", before=None, limit=9)
    assert [one.created_at for one in odd] == [103.0, 101.0]


async def test_the_oldest_runs_of_a_tenant_are_removed_with_their_results(store: Store) -> None:
    await store.runs.begin(replace(run(0), tenant="mill"), kept=2)
    for number in range(1, 4):
        await store.runs.begin(run(number), kept=2)
        await store.runs.add(run(number), [(0, result("one"))])
    kept = await store.runs.of("lab", target="", before=None, limit=9)
    assert [one.created_at for one in kept] == [103.0, 102.0]
    assert not await store.runs.results(run(1).id, status="", after=-1, limit=9)
    assert await store.runs.get("mill", run(0).id) is not None
    await store.runs.add(run(1), [(1, result("late"))])
    assert not await store.runs.results(run(1).id, status="", after=-1, limit=9)


async def test_a_tenant_that_is_deleted_leaves_no_run_and_no_baseline(store: Store) -> None:
    await store.tenants.create(ACME, audit=entry())
    mine = replace(BEGUN, tenant=ACME.name)
    for one in (mine, run(1)):
        await store.runs.begin(one, kept=5)
        await store.runs.add(one, [(0, result("one"))])
        named = Baseline(name="main", run=one.id, set_at=101.0)
        await store.runs.baselines.set(one.tenant, named, limit=5)
    await store.tenants.delete(ACME.name, audit=entry())
    assert await store.runs.get(ACME.name, mine.id) is None
    assert not await store.runs.results(mine.id, status="", after=-1, limit=9)
    assert not await store.runs.baselines.of(ACME.name)
    assert await store.runs.get("lab", run(1).id) is not None
    assert await store.runs.baselines.of("lab")
