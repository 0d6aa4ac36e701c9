"""Outputs that were sent before are known by their digests: to their tenant, within a limit."""

import asyncio
import hashlib
import struct
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.cases.runs import calls_of
from kernels.cases.suites import smoke
from opserve.digests import digest_of
from opserve_kernels.cases.cache import Cache
from opserve_kernels.cases.reference_calls import reference_key
from opserve_kernels.conformance.expected import kept_arrays, prepared_calls
from opserve_kernels.registry import OPERATORS
from opserve_kernels.verdict.judge_case import sized_outputs
from opserve_server.calls import ObservedCall
from opserve_server.conformance.answers import Submitted, Verified
from opserve_server.conformance.calls import SubmitOutputs, Verify
from opserve_server.conformance.conformance import Conformance
from opserve_server.conformance.reference import ReferenceDevice, WorkersBackend
from opserve_server.conformance.submissions import LruCache, Submission, SubmissionCaches
from opserve_server.conformance.workers import ConformanceWorkers
from opserve_server.core.accounts import Account, Accounts
from opserve_server.core.errors import HandleNotFound, InvalidArgument
from opserve_server.core.observations import Call
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.service import Service
from opserve_server.core.tenants import Tenant
from server.conformance_service import LIMITS, conformance_of
from server.core.fakes import LIMITS as CORE_LIMITS
from server.core.fakes import FakeDevice

SEED = 3
CASE = next(
    case for case in smoke(SEED).cases if case.operator == "im2col_backward" and not case.is_refused
)
ONES = np.ones(CASE.tensors["out"].shape, np.float32)
KNOWN = {"out": digest_of(ONES)}
TENANTS = [Tenant(name="lab"), Tenant(name="mill")]
ENTRY_BYTES = 1024
SIX = np.arange(6, dtype=np.float32)


@dataclass(frozen=True)
class Bench:
    """The calls of conformance, for a given caller."""

    conformance: Conformance
    accounts: Accounts

    async def submit(self, tenant: str, digests: Mapping[str, str]) -> Submitted:
        asked = SubmitOutputs(suite="smoke", case=CASE.id, seed=SEED, digests=digests)
        with ObservedCall(call_of(tenant), lambda _: None):
            answer = await self.conformance.run(asked)
        assert isinstance(answer, Submitted)
        return answer

    async def verify(
        self, tenant: str, arrays: Mapping[str, NDArray[Any]], **digests: str
    ) -> Verified:
        async def read() -> Mapping[str, NDArray[Any]]:
            return arrays

        asked = Verify(suite="smoke", case=CASE.id, seed=SEED, digests=digests)
        with ObservedCall(call_of(tenant), lambda _: None):
            return await self.conformance.verify(asked, read)


def call_of(tenant: str) -> Call:
    principal = Principal(tenant=tenant, name="ci", scopes=frozenset({Scope.OPERATE}))
    return Call(api="none", method="none", request_id="one", headers={}, principal=principal)


def keep_zeros(folder: Path) -> None:
    """Expected values of the case, so that no device is asked: each is 0."""
    for call in calls_of(CASE, SEED, sized=sized_outputs(CASE)):
        (prepared,) = prepared_calls(call)
        zeros = {name: np.zeros(storage.size) for name, storage in prepared.storages.items()}
        key = reference_key(call, contract=str(OPERATORS[CASE.operator].revision))
        Cache(folder).put(key, kept_arrays(prepared, zeros))


@asynccontextmanager
async def open_bench(folder: Path, sent_bytes: int) -> AsyncGenerator[Bench]:
    keep_zeros(folder)
    accounts, device, workers = Accounts(), FakeDevice(), ConformanceWorkers(1)
    accounts.renew(TENANTS)
    service = Service([device], limits=CORE_LIMITS, accounts=accounts)
    limits = replace(LIMITS, expected_values_folder=folder, sent_bytes=sent_bytes)
    try:
        yield Bench(conformance_of(service, workers, None, limits), accounts)
    finally:
        await workers.close()
        await service.stop()
        device.slabs.close()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[Bench]:
    async with open_bench(tmp_path, 2**20) as opened:
        yield opened


async def test_a_caller_that_leaves_while_outputs_are_digested_waits_until_the_thread_ends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, digest = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def held_up(*_: object) -> None:
        loop.call_soon_threadsafe(begun.set)
        digest.wait()

    monkeypatch.setattr("opserve_server.conformance.conformance.submission_of", held_up)
    verifying = asyncio.ensure_future(bench.verify("lab", {"out": ONES}))
    try:
        await begun.wait()
        verifying.cancel()
        for _ in range(100):
            await asyncio.sleep(0)
        assert not verifying.done(), "its arrays stay charged"
    finally:
        digest.set()
    with pytest.raises(asyncio.CancelledError):
        await verifying


async def test_outputs_of_another_tenant_are_missing(bench: Bench) -> None:
    assert (await bench.submit("lab", KNOWN)).missing == ["out"]
    verified = await bench.verify("lab", {"out": ONES})
    assert (await bench.submit("lab", KNOWN)).verified == verified
    assert await bench.submit("mill", KNOWN) == Submitted(verified=None, missing=["out"])
    with pytest.raises(HandleNotFound, match="The service does not keep the outputs out any more"):
        await bench.verify("mill", {}, **KNOWN)
    assert await bench.verify("lab", {}, **KNOWN) == verified


async def test_sent_outputs_are_removed_with_their_tenant(bench: Bench) -> None:
    await bench.verify("lab", {"out": ONES})
    bench.accounts.renew([])
    bench.accounts.renew(TENANTS)
    assert (await bench.submit("lab", KNOWN)).missing == ["out"]


async def test_a_verdict_that_is_known_is_not_made_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified = await bench.verify("lab", {"out": ONES})

    async def never(*_: object) -> None:
        raise AssertionError("judged")

    monkeypatch.setattr(WorkersBackend, "do", never)
    assert (await bench.submit("lab", KNOWN)).verified == verified
    assert await bench.verify("lab", {"out": ONES}) == verified
    with pytest.raises(AssertionError, match="judged"):
        await bench.verify("lab", {"out": ONES + 1})


async def test_a_tenant_has_no_more_than_its_limit_kept(tmp_path: Path) -> None:
    one_output = (ONES.nbytes + ENTRY_BYTES) * 8 // 7 + 8
    async with open_bench(tmp_path, one_output) as bench:
        verified = await bench.verify("lab", {"out": ONES})
        assert len(verified.verdict) + ENTRY_BYTES > one_output // 8, "no verdict is kept"
        assert (await bench.submit("lab", KNOWN)).verified == verified
        await bench.verify("mill", {"out": ONES + 1})
        assert (await bench.submit("lab", KNOWN)).verified == verified
        await bench.verify("lab", {"out": ONES + 1})
        assert (await bench.submit("lab", KNOWN)).missing == ["out"]


async def test_outputs_that_the_case_does_not_write_count_for_nothing(bench: Bench) -> None:
    verified = await bench.verify("lab", {"out": ONES, "more": ONES + 1})
    assert (await bench.submit("lab", KNOWN | {"other": "0" * 64})).verified == verified
    without = await bench.submit("lab", {})
    assert without.verified is not None
    assert "nothing was given" in without.verified.reason


@pytest.mark.parametrize("digest", ["", "0" * 63, "A" * 64, "../" * 21 + "x"])
async def test_an_invalid_digest_is_refused(bench: Bench, digest: str) -> None:
    with pytest.raises(
        InvalidArgument, match=r"digests\.out (does not accept .*|is missing); it accepts 64"
    ):
        await bench.submit("lab", {"out": digest})


async def test_too_many_digests_are_refused(bench: Bench) -> None:
    with pytest.raises(
        InvalidArgument, match="digests does not accept 4 of them; it accepts at most 3"
    ):
        await bench.submit("lab", {str(place): "0" * 64 for place in range(4)})


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    recent = LruCache[str, int](3 * (100 + ENTRY_BYTES))
    for place, key in enumerate("abc"):
        recent.put(key, place, 100)
    assert recent.get("a") == 0
    recent.put("b", 1, 100)
    recent.put("d", 3, 100)
    recent.put("too large", 4, 10_000)
    assert [recent.get(key) for key in ("a", "b", "c", "d", "too large")] == [0, 1, None, 3, None]


def test_the_tenant_with_most_entries_makes_room() -> None:
    accounts = Accounts()
    accounts.renew(TENANTS)
    lab, mill = (accounts.of(tenant.name) for tenant in TENANTS)
    task = ReferenceDevice(mock.Mock(), LIMITS).task(CASE, SEED)
    verified = Verified(case=CASE.id, status="PASSED", reason="", verdict="")
    arrays = [np.full(2**14, n, np.float32) for n in range(9)]
    given = [Submission(arrays={"out": one}, digests={"out": digest_of(one)}) for one in arrays]
    output_bytes = arrays[0].nbytes + ENTRY_BYTES
    limit_bytes = 3 * output_bytes + len(given) * ENTRY_BYTES
    sent = SubmissionCaches(limit_bytes, tenant_limit_bytes=2**20)

    def keep(account: Account, number: int) -> None:
        sent.of(account).keep(task, given[number], verified)
        sent.make_room()

    def kept(account: Account) -> list[int]:
        outputs = (replace(one, arrays={}) for one in given)
        return [n for n, one in enumerate(outputs) if sent.of(account).outputs(one)]

    for number in range(3):
        keep(lab, number)
    assert kept(lab) == [0, 1, 2]
    keep(mill, 3)
    assert (kept(lab), kept(mill)) == ([1, 2], [3])
    for number in range(4, 9):
        keep(mill, number)
        assert sent.of(lab).held_bytes + sent.of(mill).held_bytes <= limit_bytes
    assert (kept(lab), kept(mill)) == ([2], [7, 8])


@pytest.mark.parametrize(
    ("array", "hashed"),
    [
        (SIX.reshape(2, 3), b"float32 2 3\n" + struct.pack("<6f", 0, 1, 2, 3, 4, 5)),
        (SIX.reshape(3, 2).T, b"float32 2 3\n" + struct.pack("<6f", 0, 2, 4, 1, 3, 5)),
        (SIX.astype(">f4"), b"float32 6\n" + struct.pack("<6f", 0, 1, 2, 3, 4, 5)),
        (np.array(0x3F80, np.uint16), b"uint16\n\x80\x3f"),
        (np.zeros((0, 4), bool), b"bool 0 4\n"),
    ],
)
def test_a_digest_is_computed_as_documented(array: NDArray[Any], hashed: bytes) -> None:
    assert digest_of(array) == hashlib.sha256(hashed).hexdigest()
