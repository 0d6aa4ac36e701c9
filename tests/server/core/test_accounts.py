"""Usage of a tenant against its quota."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from opserve_server.core.accounts import Account, Accounts
from opserve_server.core.errors import QuotaExceeded, Unauthenticated
from opserve_server.core.principal import LOCAL
from opserve_server.core.tenants import Quota, Resource, Tenant
from opserve_server.core.usage import UsageBook

HOUR_S = 3600.0
NOON_S = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()


def account_of(**quota: float) -> Account:
    return Account(Tenant(name="ours", quota=Quota(**quota)), UsageBook(lambda: NOON_S))  # type: ignore[arg-type]  # each by its name


def admitted(account: Account, *, calls: int) -> int:
    """The number of admitted calls among some at once."""
    count = 0
    for _ in range(calls):
        with suppress(QuotaExceeded):
            account.admit_call()
            count += 1
    return count


def test_a_tenant_without_a_quota_is_unlimited() -> None:
    held = account_of().reserve(Resource.BUFFERS)
    held.check(10**18)
    held.update(10**18)
    held.check(10**18)


def test_a_quota_is_for_all_holders_together() -> None:
    account = account_of(buffers=3)
    one, other = account.reserve(Resource.BUFFERS), account.reserve(Resource.BUFFERS)
    one.update(2)
    other.check(1)
    other.update(1)
    with pytest.raises(QuotaExceeded) as refused:
        one.check(1)
    assert refused.value.message == (
        "Buffer quota of tenant ours used up (3 of 3). Free one first."
    )
    assert (refused.value.limit, refused.value.use, refused.value.retry_after_s) == (3, 3, 1.0)
    other.update(0)
    one.check(1)


def test_refusals_are_counted_by_resource() -> None:
    account = account_of(sessions=0, streams=0)
    for _ in range(2):
        with pytest.raises(QuotaExceeded):
            account.reserve(Resource.SESSIONS).check()
    assert account.counters[Resource.SESSIONS].refusals == 2
    assert account.counters[Resource.STREAMS].refusals == 0


def test_resources_beyond_a_lowered_quota_stay_and_none_are_added() -> None:
    account = account_of(executors=5)
    held = account.reserve(Resource.EXECUTORS)
    held.update(4)
    account.renew(Tenant(name="ours", quota=Quota(executors=2)))
    assert account.use(Resource.EXECUTORS) == 4
    with pytest.raises(QuotaExceeded):
        held.check()
    held.update(1)
    held.check()


def test_bytes_in_flight_are_released_when_the_copy_fails() -> None:
    account = account_of(bytes_in_flight=10)

    def copy(size_bytes: int) -> None:
        with account.in_flight(size_bytes):
            copy(size_bytes)

    with pytest.raises(QuotaExceeded, match="4 bytes beside 8 in use, of 10"):
        copy(4)
    assert account.use(Resource.BYTES_IN_FLIGHT) == 0


def test_a_call_without_bytes_is_admitted_where_the_quota_has_none_left() -> None:
    account = account_of(bytes_in_flight=10)
    with account.in_flight(10), account.in_flight() as later:
        assert account.use(Resource.BYTES_IN_FLIGHT) == 10
        with pytest.raises(QuotaExceeded):
            later.check(1)
    assert account.use(Resource.BYTES_IN_FLIGHT) == 0


async def test_calls_are_admitted_at_their_rate_with_a_burst_of_one_second() -> None:
    account = account_of(calls_per_s=10)
    assert admitted(account, calls=100) == 10
    await asyncio.sleep(0.35)
    assert admitted(account, calls=100) == 3
    await asyncio.sleep(HOUR_S)
    assert admitted(account, calls=100) == 10, "what was not called for is not saved up"


async def test_a_rate_below_one_admits_a_call_at_its_time() -> None:
    account = account_of(calls_per_s=0.5)
    assert admitted(account, calls=3) == 1
    await asyncio.sleep(1.9)
    assert admitted(account, calls=3) == 0
    await asyncio.sleep(0.2)
    assert admitted(account, calls=3) == 1


async def test_a_refused_call_reports_when_to_retry() -> None:
    account = account_of(calls_per_s=4)
    admitted(account, calls=4)

    with pytest.raises(QuotaExceeded) as refused:
        account.admit_call()
    assert refused.value.use == pytest.approx(4)
    retry_after_s = refused.value.retry_after_s
    assert retry_after_s == pytest.approx(0.25)
    await asyncio.sleep(retry_after_s + 1e-6)
    assert admitted(account, calls=9) == 1


async def test_no_calls_are_admitted_at_a_rate_of_zero() -> None:
    assert admitted(account_of(calls_per_s=0), calls=1) == 0


def test_a_day_of_device_time_is_used_up_until_midnight() -> None:
    now = NOON_S
    book = UsageBook(lambda: now)
    account = Account(Tenant(name="ours", quota=Quota(device_seconds_per_day=2)), book)
    account.used_device("ascend910b", 1.5)
    account.check_device_time()
    account.used_device("reference", 0.75)
    with pytest.raises(QuotaExceeded) as refused:
        account.check_device_time()
    assert refused.value.message == (
        "Device time of tenant ours used up today: 2.25 of 2 s. Retry in 12 h."
    )
    assert refused.value.retry_after_s == 12 * HOUR_S
    now += 12 * HOUR_S
    account.check_device_time()


def test_only_tenants_that_are_known_have_an_account() -> None:
    accounts = Accounts()
    assert [account.tenant.name for account in accounts] == [LOCAL.tenant]
    accounts.renew([Tenant(name="ours"), Tenant(name="off", disabled=True)])
    assert accounts.of("ours").tenant.name == "ours"
    for name in ("off", "nobody"):
        with pytest.raises(Unauthenticated):
            accounts.of(name)


def test_an_account_outlives_a_change_of_its_tenant_and_ends_with_it() -> None:
    accounts = Accounts()
    accounts.renew([Tenant(name="ours")])
    account = accounts.of("ours")
    accounts.renew([Tenant(name="ours", quota=Quota(sessions=1))])
    assert accounts.of("ours") is account
    accounts.renew([])
    assert account.closed


def test_unauthenticated_callers_have_no_quota() -> None:
    accounts = Accounts()
    accounts.renew([Tenant(name=LOCAL.tenant, quota=Quota(sessions=0), disabled=True)])
    accounts.of(LOCAL.tenant).reserve(Resource.SESSIONS).check()
