"""Device time by tenant and day, and its way to the ledger."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

import pytest

from opserve_server.core.ledger import Flush, LedgerRow
from opserve_server.core.usage import UsageBook

TODAY = date(2026, 3, 1)
NOON_S = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
DAY_S = 86_400.0


@dataclass
class FakeLedger:
    """Adds up the rows it receives, unless it fails or is slow."""

    rows: dict[tuple[str, date, str], tuple[float, int]] = field(
        default_factory=dict[tuple[str, date, str], tuple[float, int]]
    )
    failures: int = 0
    takes_s: float = 0.0

    async def add(self, flush: Flush) -> None:
        await asyncio.sleep(self.takes_s)
        if self.failures:
            self.failures -= 1
            raise OSError("planted: no ledger")
        for row in flush.rows:
            key = (row.tenant, row.day, row.profile)
            device_s, calls = self.rows.get(key, (0.0, 0))
            self.rows[key] = (device_s + row.device_s, calls + row.calls)

    async def of(
        self, tenant: str | None, *, first_day: date, last_day: date
    ) -> Sequence[LedgerRow]:
        return [
            LedgerRow(tenant=name, day=day, profile=profile, device_s=device_s, calls=calls)
            for (name, day, profile), (device_s, calls) in self.rows.items()
            if tenant in (None, name) and first_day <= day <= last_day
        ]


class Wall:
    """A wall clock."""

    def __init__(self) -> None:
        self.now = NOON_S

    def __call__(self) -> float:
        return self.now


def used_book() -> tuple[UsageBook, Wall]:
    wall = Wall()
    book = UsageBook(wall)
    book.add("ours", "ascend910b", 1.5)
    book.add("ours", "ascend910b", 0.5)
    book.add("ours", "reference", 4.0)
    book.add("theirs", "reference", 8.0)
    return book, wall


async def test_rows_are_by_tenant_day_and_profile() -> None:
    book, wall = used_book()
    wall.now += DAY_S
    book.add("ours", "reference", 16.0)
    ledger = FakeLedger()
    await book.save(ledger)
    assert ledger.rows == {
        ("ours", TODAY, "ascend910b"): (2.0, 2),
        ("ours", TODAY, "reference"): (4.0, 1),
        ("theirs", TODAY, "reference"): (8.0, 1),
        ("ours", date(2026, 3, 2), "reference"): (16.0, 1),
    }


async def test_a_row_is_saved_once() -> None:
    book, _ = used_book()
    ledger = FakeLedger()
    await book.save(ledger)
    before = dict(ledger.rows)
    await book.save(ledger)
    assert ledger.rows == before


async def test_rows_that_the_ledger_rejected_are_sent_with_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    book, _ = used_book()
    ledger = FakeLedger(failures=1, takes_s=1.0)
    saving = asyncio.create_task(book.save(ledger))
    await asyncio.sleep(0.5)
    book.add("theirs", "reference", 1.0)
    await saving
    assert not ledger.rows
    assert "usage of 3 rows" in caplog.text
    await book.save(ledger)
    assert ledger.rows["theirs", TODAY, "reference"] == (9.0, 2)
    assert ledger.rows["ours", TODAY, "ascend910b"] == (2.0, 2)
    assert not book.unsaved


async def test_rows_whose_saving_was_given_up_are_kept() -> None:
    book, _ = used_book()
    saving = asyncio.create_task(book.save(FakeLedger(takes_s=9.0)))
    await asyncio.sleep(0.5)
    saving.cancel()
    await asyncio.wait([saving])
    assert len(book.unsaved) == 3


async def test_a_restart_refills_no_day() -> None:
    book, wall = used_book()
    ledger = FakeLedger()
    ledger.rows["ours", date(2026, 2, 28), "reference"] = (100.0, 1)
    await book.save(ledger)
    again = UsageBook(wall)
    await again.load(ledger)
    assert again.seconds_today("ours") == book.seconds_today("ours") == 6.0
    assert not again.unsaved, "what the ledger has is not added to it again"
    wall.now += DAY_S / 2
    assert again.seconds_today("ours") == 0.0


async def test_a_day_counts_what_other_services_have_written() -> None:
    wall, ledger = Wall(), FakeLedger()
    ours, theirs = UsageBook(wall), UsageBook(wall)
    theirs.add("lab", "ascend910b", 2.0)
    await theirs.save(ledger)
    ours.add("lab", "ascend910b", 3.0)
    for _ in range(2):
        await ours.load(ledger)
        assert ours.seconds_today("lab") == 5.0
    await ours.save(ledger)
    for book in (ours, theirs):
        await book.load(ledger)
        assert book.seconds_today("lab") == 5.0
