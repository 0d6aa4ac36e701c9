"""Accounts: the current use of each tenant, compared with its quota.

Sessions, slabs, handles, queued work and bytes in flight are reported by their holder as a total
after every change, for example "this table has 3 now". So nothing is returned twice, and the next
report corrects a missed one. A holder checks the quota before it takes anything, and takes it in
the same iteration of the event loop.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from opserve_server.core.errors import QuotaExceeded, Unauthenticated
from opserve_server.core.executors import Plans
from opserve_server.core.info import ResourceUse
from opserve_server.core.principal import LOCAL
from opserve_server.core.tenants import Resource, Tenant
from opserve_server.core.usage import UsageBook

RETRY_AFTER_S = 1.0
"""Seconds until a retry, where the time of the next release is unknown."""
BYTES_IN_FLIGHT = 2**30
"""Limit of a tenant whose quota has none, bytes, unless the settings name another."""
FARM_RESOURCES = (Resource.SESSIONS, Resource.DEVICE_MEMORY)
"""Resources that services of a farm report to each other, so that a quota limits their sum. Device
seconds are summed in the store, and each service applies the other limits alone."""
_BURST_S = 1.0
"""Seconds of calls at the tenant's rate that may arrive at once."""


@dataclass(slots=True, eq=False)
class ResourceCounter:
    """Limit, use and rejections of one resource in an account.

    Attributes:
        resource: The resource.
        limit: Limit of the quota; infinite where the quota has none.
        use: Amount in use; for calls and device time see Account.use.
        elsewhere: Amount in use on the other services of the farm, at their last renewal.
        refusals: Number of rejections.
    """

    resource: Resource
    limit: float
    use: int = 0
    elsewhere: int = 0
    refusals: int = 0


class Account:
    """Resources in use by one tenant, and the plans of its calls.

    Args:
        tenant: The tenant.
        book: Counts its device time.
        bytes_in_flight: Limit of bytes in flight where the quota has none, bytes.

    Attributes:
        tenant: The latest version of the tenant.
        closed: Whether the tenant is disabled or deleted; its sessions end.
        counters: Limit, use and rejections of every resource.
        calls: Calls received over all APIs, including rejected ones.
    """

    def __init__(
        self, tenant: Tenant, book: UsageBook, *, bytes_in_flight: int = BYTES_IN_FLIGHT
    ) -> None:
        self._book = book
        self._unset = {Resource.BYTES_IN_FLIGHT: bytes_in_flight}
        # Time up to which calls are paid for at the tenant's rate: a leaky bucket without a timer.
        self._calls_until_s = 0.0
        self.calls = 0
        self._plans: dict[str, Plans] = {}
        self.counters = {resource: ResourceCounter(resource, inf) for resource in Resource}
        self.renew(tenant)

    def renew(self, tenant: Tenant) -> None:
        """Applies a change of the tenant; use above a lower limit stays, new work is rejected."""
        self.tenant = tenant
        self.closed = tenant.disabled
        for counter in self.counters.values():
            limit = getattr(tenant.quota, counter.resource)
            unset = self._unset.get(counter.resource, inf)
            counter.limit = unset if limit is None else limit

    def plans(self, profile: str, *, limit: int) -> Plans:
        """The plans kept for calls on a profile: of all sessions, and of no other tenant.

        Args:
            profile: Name of the profile.
            limit: Plans kept, the same for every session.
        """
        if profile not in self._plans:
            self._plans[profile] = Plans(profile, limit=limit)
        return self._plans[profile]

    def use(self, resource: Resource) -> float:
        """Current use of a resource."""
        if resource is Resource.CALLS_PER_S:
            return self._calls_ahead(self.counters[resource].limit)
        if resource is Resource.DEVICE_SECONDS:
            return self._book.seconds_today(self.tenant.name)
        counter = self.counters[resource]
        return counter.use + counter.elsewhere

    def _calls_ahead(self, rate: float) -> float:
        if not 0 < rate < inf:
            return 0.0
        return max(self._calls_until_s - asyncio.get_running_loop().time(), 0.0) * rate

    def uses(self) -> list[ResourceUse]:
        """Limit, use and rejections of every resource."""
        return [
            ResourceUse(
                resource=counter.resource,
                limit=None if counter.limit == inf else counter.limit,
                use=self.use(counter.resource),
                refusals=counter.refusals,
            )
            for counter in self.counters.values()
        ]

    def check(self, resource: Resource) -> None:
        """Rejects one more than the quota of a resource allows (QuotaExceeded)."""
        counter = self.counters[resource]
        if counter.use + counter.elsewhere + 1 > counter.limit:
            raise self.refusal(counter)

    def reserve(self, resource: Resource, amount: int = 0) -> "Reservation":
        """A reservation for a new holder."""
        reservation = Reservation(self, self.counters[resource])
        reservation.update(amount)
        return reservation

    @contextmanager
    def in_flight(self, size_bytes: int = 0) -> Generator["Reservation"]:
        """Reserves bytes in transit between client and service until the block ends.

        Args:
            size_bytes: Bytes of the beginning; the reservation takes more as they arrive.
        """
        reservation = self.reserve(Resource.BYTES_IN_FLIGHT)
        reservation.check(size_bytes)
        reservation.update(size_bytes)
        try:
            yield reservation
        finally:
            reservation.update(0)

    def admit_call(self) -> None:
        """Counts a call of any API, or rejects it above the rate limit.

        Each call moves the account's virtual time forward by one interval of the rate. A call that
        would be further ahead of the clock than the burst is rejected.
        """
        # Rejected calls count as well: the number is the load that the tenant causes.
        self.calls += 1
        counter = self.counters[Resource.CALLS_PER_S]
        if counter.limit == inf:
            return
        if counter.limit <= 0:
            raise self.refusal(counter)
        now = asyncio.get_running_loop().time()
        each_s = 1.0 / counter.limit
        until_s = max(self._calls_until_s, now) + each_s
        # A rate below one call per second must still allow a single call.
        wait_s = until_s - now - max(_BURST_S, each_s)
        if wait_s > 0:
            raise self.refusal(counter, retry_after_s=wait_s)
        self._calls_until_s = until_s

    def check_device_time(self) -> None:
        """Rejects a call when earlier calls have used the day's device time."""
        counter = self.counters[Resource.DEVICE_SECONDS]
        # The time of a call is known at its end only, so a tenant may exceed the limit by its calls
        # at the device.
        if counter.limit < inf and self.use(Resource.DEVICE_SECONDS) >= counter.limit:
            raise self.refusal(counter, retry_after_s=self._book.seconds_to_midnight())

    def used_device(self, profile: str, seconds: float) -> None:
        """Charges device time of a call, whatever its outcome."""
        self._book.add(self.tenant.name, profile, seconds)

    def refusal(
        self, counter: ResourceCounter, *, requested: int = 1, retry_after_s: float = RETRY_AFTER_S
    ) -> QuotaExceeded:
        """Counts and returns a rejection."""
        counter.refusals += 1
        return QuotaExceeded(
            counter.resource,
            tenant=self.tenant.name,
            limit=counter.limit,
            use=self.use(counter.resource),
            requested=requested,
            retry_after_s=retry_after_s,
        )


class Reservation:
    """Amount of a resource that one holder uses: a session, table, memory, queue or copy."""

    __slots__ = ("_account", "_amount", "_counter")

    def __init__(self, account: Account, counter: ResourceCounter) -> None:
        self._account = account
        self._counter = counter
        self._amount = 0

    @property
    def available(self) -> float:
        """Amount that the quota still allows; infinite without a limit."""
        return self._counter.limit - self._counter.use - self._counter.elsewhere

    def check(self, requested: int = 1) -> None:
        """Rejects more than the quota allows (QuotaExceeded); changes nothing."""
        # Nothing may run between this check and the update, so callers do both without an await.
        if requested > self.available:
            raise self.refusal(requested)

    def refusal(self, requested: int) -> QuotaExceeded:
        """Counts and returns a rejection."""
        return self._account.refusal(self._counter, requested=requested)

    def update(self, amount: int) -> None:
        """Sets the holder's total."""
        # Only the difference to the previous report changes the sum, so a repeated or late report
        # cannot count twice.
        self._counter.use += amount - self._amount
        self._amount = amount


class Accounts:
    """The accounts of all tenants, by name.

    Args:
        bytes_in_flight: Limit of a tenant whose quota names none, bytes.
        now: The wall clock, seconds since 1970.

    Attributes:
        book: Device time of all tenants.
    """

    def __init__(
        self, *, bytes_in_flight: int = BYTES_IN_FLIGHT, now: Callable[[], float] = time.time
    ) -> None:
        self.book = UsageBook(now)
        self._bytes_in_flight = bytes_in_flight
        self._accounts = {LOCAL.tenant: self._new(Tenant(name=LOCAL.tenant))}

    def __iter__(self) -> Iterator[Account]:
        return iter(self._accounts.values())

    def of(self, tenant: str) -> Account:
        """The account of an active tenant.

        Raises:
            Unauthenticated: 207006, the tenant is deleted or disabled.
        """
        account = self._accounts.get(tenant)
        if account is None or account.closed:
            raise Unauthenticated(f"tenant {tenant} is disabled or gone")
        return account

    def left(self, tenant: str, resource: Resource) -> float:
        """Amount that a tenant may still use; 0 for one that is deleted or disabled."""
        account = self._accounts.get(tenant)
        if account is None or account.closed:
            return 0.0
        return account.counters[resource].limit - account.use(resource)

    def uses(self) -> dict[str, dict[str, int]]:
        """Use of what the quotas of a farm count, by tenant and resource."""
        return {
            account.tenant.name: {name: account.counters[name].use for name in FARM_RESOURCES}
            for account in self
            if any(account.counters[name].use for name in FARM_RESOURCES)
        }

    def count_elsewhere(self, uses: Iterable[Mapping[str, Mapping[str, int]]]) -> None:
        """Sets the use on the other services of the farm, each as from their `uses`."""
        reports = list(uses)
        for account in self:
            tenant = account.tenant.name
            for name in FARM_RESOURCES:
                found = (report.get(tenant, {}).get(name, 0) for report in reports)
                account.counters[name].elsewhere = sum(found)

    def renew(self, tenants: Iterable[Tenant]) -> None:
        """Replaces the tenants of the service; LOCAL's own account stays."""
        known = {tenant.name: tenant for tenant in tenants if tenant.name != LOCAL.tenant}
        for name in self._accounts.keys() - known.keys() - {LOCAL.tenant}:
            # Sessions and calls may still hold the account: `closed` ends them, and their
            # reservations are returned to it.
            self._accounts.pop(name).closed = True
        for name, tenant in known.items():
            if name in self._accounts:
                self._accounts[name].renew(tenant)
            else:
                self._accounts[name] = self._new(tenant)

    def _new(self, tenant: Tenant) -> Account:
        return Account(tenant, self.book, bytes_in_flight=self._bytes_in_flight)
