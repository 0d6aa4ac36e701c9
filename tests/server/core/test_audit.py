"""Refused callers on their way to the store."""

from collections.abc import Sequence

from opserve_server.core.audit import AuditEntry, RefusedCalls
from opserve_server.core.observations import Call, CallEnded
from opserve_server.core.principal import Principal


class Store:
    """Keeps entries, or fails."""

    def __init__(self) -> None:
        self.kept: list[AuditEntry] = []
        self.failing = False

    async def __call__(self, entries: Sequence[AuditEntry]) -> None:
        if self.failing:
            raise OSError("planted")
        self.kept += entries


def refused(method: str, *, reason: str = "a key", principal: Principal | None = None) -> CallEnded:
    call = Call(
        api="rest",
        method=method,
        request_id=f"id-{method}",
        headers={},
        principal=principal,
        outcome="401",
        failure="authorization: given",
        audited=reason,
    )
    return CallEnded(call, 0.1)


async def test_equal_refusals_share_an_entry_until_it_is_kept() -> None:
    store, times = Store(), iter([1.0, 2.0, 3.0, 4.0])
    calls = RefusedCalls(limit=10, clock=lambda: next(times))
    alice = Principal(tenant="lab", name="alice", scopes=frozenset())
    for _ in range(2):
        calls.observe(refused("openSession"))
    calls.observe(refused("openSession", principal=alice))
    await calls.flush(store)
    calls.observe(refused("openSession"))
    await calls.flush(store)
    await calls.flush(store)
    known = [(entry.at, entry.tenant, entry.principal, entry.count) for entry in store.kept]
    assert known == [(1.0, "", "", 2), (3.0, "lab", "alice", 1), (4.0, "", "", 1)]
    entry = store.kept[0]
    assert (entry.face, entry.method, entry.outcome) == ("rest", "openSession", "401")
    assert (entry.reason, entry.request_id) == ("a key", "id-openSession")


async def test_calls_refused_for_reasons_other_than_the_caller_are_not_kept() -> None:
    store = Store()
    calls = RefusedCalls(limit=10, clock=lambda: 0.0)
    calls.observe(refused("openSession", reason=""))
    await calls.flush(store)
    assert store.kept == []


async def test_entries_without_room_are_counted() -> None:
    store = Store()
    calls = RefusedCalls(limit=2, clock=lambda: 0.0)
    for number in range(5):
        calls.observe(refused(f"m{number}"))
    calls.observe(refused("m1"))
    await calls.flush(store)
    assert [(entry.method, entry.count) for entry in store.kept] == [("m0", 1), ("m1", 2)]
    assert calls.count_dropped() == 3


async def test_entries_that_a_store_rejects_are_sent_again_within_the_limit() -> None:
    store = Store()
    calls = RefusedCalls(limit=2, clock=lambda: 0.0)
    store.failing = True
    calls.observe(refused("m0"))
    await calls.flush(store)
    calls.observe(refused("m0"))
    await calls.flush(store)
    store.failing = False
    await calls.flush(store)
    assert [(entry.method, entry.count) for entry in store.kept] == [("m0", 2)]
    assert calls.count_dropped() == 0
