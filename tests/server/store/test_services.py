"""The directory of a farm: leases by the clock of the database, and epochs of names."""

from collections.abc import AsyncIterator, Sequence

import pytest

from opserve_server.store.services import ServiceRow, Services
from opserve_server.store.store import open_store
from server.store.conftest import TIMEOUT_S
from server.store.farm_services import end_lease, row, set_back


@pytest.fixture
async def services(migrated: str) -> AsyncIterator[Services]:
    async with open_store(migrated, timeout_s=TIMEOUT_S, connections_limit=4) as store:
        yield Services(store.database)


pytestmark = pytest.mark.parametrize("url", ["postgresql"], indirect=True)
LEASE_S = 600.0


async def live(services: Services) -> Sequence[ServiceRow]:
    return (await services.read()).changed


async def test_a_registered_service_is_listed_with_all_that_it_reported(services: Services) -> None:
    reported = row(drains=True, devices='[{"name": "x"}]')
    assert await services.register(reported, lease_s=LEASE_S) == 1
    assert await live(services) == [reported]


async def test_a_renewal_brings_the_others_and_changes_the_own_row(services: Services) -> None:
    epoch = await services.register(row("a"), lease_s=LEASE_S)
    await services.register(row("b"), lease_s=LEASE_S)
    changed = row("a", devices="[1]")
    reading = await services.renew(changed, epoch=epoch, lease_s=LEASE_S)
    assert reading is not None
    assert (reading.live, reading.changed) == (["a", "b"], [changed, row("b")])
    assert await live(services) == [changed, row("b")]


async def test_a_renewal_brings_what_changed_since_the_last_one(
    services: Services, url: str
) -> None:
    epochs = [await services.register(row(name), lease_s=LEASE_S) for name in "abc"]
    first = await services.renew(row("a"), epoch=epochs[0], lease_s=LEASE_S)
    assert first is not None
    await set_back(url, 100.0)  # the changes until now are old
    await services.renew(row("b"), epoch=epochs[1], lease_s=LEASE_S)
    changed = row("c", uses="{}", devices="[1]")
    await services.renew(changed, epoch=epochs[2], lease_s=LEASE_S)
    then = await services.renew(row("a"), epoch=epochs[0], lease_s=LEASE_S, since_s=first.now_s)
    assert then is not None
    assert (then.live, then.changed) == (["a", "b", "c"], [changed])
    assert then.now_s > first.now_s


async def test_a_service_disappears_when_its_lease_ends(services: Services, url: str) -> None:
    epoch = await services.register(row("a"), lease_s=LEASE_S)
    await end_lease(url, "a")
    assert await live(services) == []
    assert await services.renew(row("a"), epoch=epoch, lease_s=LEASE_S) is None
    assert await live(services) == []


async def test_reports_with_an_older_epoch_change_nothing(services: Services) -> None:
    old = await services.register(row("a", "one"), lease_s=LEASE_S)
    new = await services.register(row("a", "two"), lease_s=LEASE_S)
    assert new == old + 1
    assert await services.renew(row("a", "one", drains=True), epoch=old, lease_s=LEASE_S) is None
    await services.leave("a", epoch=old)
    assert await services.register_again(row("a", "one"), lease_s=LEASE_S) is None
    assert await live(services) == [row("a", "two")]


async def test_a_process_whose_lease_ended_registers_again_with_a_new_epoch(
    services: Services, url: str
) -> None:
    old = await services.register(row("a"), lease_s=LEASE_S)
    await end_lease(url, "a")
    assert await services.register_again(row("a"), lease_s=LEASE_S) == old + 1
    assert await services.renew(row("a"), epoch=old, lease_s=LEASE_S) is None
    assert await services.renew(row("a"), epoch=old + 1, lease_s=LEASE_S) is not None


async def test_epochs_grow_over_the_end_of_a_service(services: Services) -> None:
    epoch = await services.register(row("a"), lease_s=LEASE_S)
    await services.leave("a", epoch=epoch)
    assert await live(services) == []
    assert await services.register(row("a", "two"), lease_s=LEASE_S) == epoch + 1
