"""Accounts: what each tenant uses now, against its quota.

What is held - sessions, slabs, handles, queued work, bytes under way - is told by its holder as a
whole, after every change: "this table has 3 now". So nothing is given back twice, and what was
forgotten once is right again with the next word. A holder asks before it takes, and takes in the
same turn of the event loop.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from opserve_server.core.errors import QuotaExceeded, Unauthenticated
from opserve_server.core.info import ResourceUse
from opserve_server.core.principal import LOCAL
from opserve_server.core.tenants import Resource, Tenant
from opserve_server.core.usage import UsageBook

RETRY_AFTER_S = 1.0
"""Seconds until a later try, where nobody knows when something is given back."""
BYTES_IN_FLIGHT = 2**30
"""Of a tenant whose quota names none, bytes, unless an operator sets it."""
_BURST_S = 1.0
"""Of calls at their rate that may come at once."""


@dataclass(slots=True, eq=False)
class ResourceCounter:
    """How an account stands in one resource.

    Attributes:
        resource: Which.
        limit: Of the quota; infinite where it has none.
        use: What is held now; of calls and device time see Account.use.
        refusals: How often it was refused.
    """

    resource: Resource
    limit: float
    use: int = 0
    refusals: int = 0


class Account:
    """What one tenant uses now.

    Args:
        tenant: The tenant.
        book: Where its device time is counted.
        bytes_in_flight: Its limit where the quota names none, bytes.

    Attributes:
        tenant: The tenant as it was last told.
        closed: Whether it is disabled or gone: its sessions end.
        standings: Limit, use and refusals of every resource.
        calls: How many came, over all APIs, refused ones too.
    """

    def __init__(
        self, tenant: Tenant, book: UsageBook, *, bytes_in_flight: int = BYTES_IN_FLIGHT
    ) -> None:
        self._book = book
        self._unset = {Resource.BYTES_IN_FLIGHT: bytes_in_flight}
        self._calls_until_s = 0.0
        self.calls = 0
        self.counters = {resource: ResourceCounter(resource, inf) for resource in Resource}
        self.renew(tenant)

    def renew(self, tenant: Tenant) -> None:
        """The tenant was changed. What it has beyond a lower limit stays; new work is refused."""
        self.tenant = tenant
        self.closed = tenant.disabled
        for counter in self.counters.values():
            limit = getattr(tenant.quota, counter.resource)
            unset = self._unset.get(counter.resource, inf)
            counter.limit = unset if limit is None else limit

    def use(self, resource: Resource) -> float:
        """What is used of a resource now."""
        if resource is Resource.CALLS_PER_S:
            return self._calls_ahead(self.counters[resource].limit)
        if resource is Resource.DEVICE_SECONDS:
            return self._book.seconds_today(self.tenant.name)
        return self.counters[resource].use

    def _calls_ahead(self, rate: float) -> float:
        if not 0 < rate < inf:
            return 0.0
        return max(self._calls_until_s - asyncio.get_running_loop().time(), 0.0) * rate

    def uses(self) -> list[ResourceUse]:
        """How it stands in every resource."""
        return [
            ResourceUse(
                resource=counter.resource,
                limit=None if counter.limit == inf else counter.limit,
                use=self.use(counter.resource),
                refusals=counter.refusals,
            )
            for counter in self.counters.values()
        ]

    def reserve(self, resource: Resource, amount: int = 0) -> "Reservation":
        """What a new holder has."""
        reservation = Reservation(self, self.counters[resource])
        reservation.update(amount)
        return reservation

    @contextmanager
    def in_flight(self, size_bytes: int) -> Generator["Reservation"]:
        """Bytes under way between a client and the service, inside the block; they may change."""
        reservation = self.reserve(Resource.BYTES_IN_FLIGHT)
        reservation.check(size_bytes)
        reservation.update(size_bytes)
        try:
            yield reservation
        finally:
            reservation.update(0)

    def admit_call(self) -> None:
        """Counts a call of any API, or refuses it where too many came.

        Each call takes the account's time ahead by its share of a second; who is further ahead
        than the burst has to wait.
        """
        self.calls += 1
        counter = self.counters[Resource.CALLS_PER_S]
        if counter.limit == inf:
            return
        if counter.limit <= 0:
            raise self.refusal(counter)
        now = asyncio.get_running_loop().time()
        each_s = 1.0 / counter.limit
        until_s = max(self._calls_until_s, now) + each_s
        wait_s = until_s - now - max(_BURST_S, each_s)
        if wait_s > 0:
            raise self.refusal(counter, retry_after_s=wait_s)
        self._calls_until_s = until_s

    def check_device_time(self) -> None:
        """Refuses a call when those before it have used the day's device time."""
        counter = self.counters[Resource.DEVICE_SECONDS]
        if counter.limit < inf and self.use(Resource.DEVICE_SECONDS) >= counter.limit:
            raise self.refusal(counter, retry_after_s=self._book.seconds_to_midnight())

    def used_device(self, profile: str, seconds: float) -> None:
        """A call ran on a device, whatever it came to."""
        self._book.add(self.tenant.name, profile, seconds)

    def refusal(
        self, counter: ResourceCounter, *, requested: int = 1, retry_after_s: float = RETRY_AFTER_S
    ) -> QuotaExceeded:
        """Counts a refusal, and gives it."""
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
    """What one holder has of a resource: a session, a table of it, its memory, a queue, a copy."""

    __slots__ = ("_account", "_amount", "_counter")

    def __init__(self, account: Account, counter: ResourceCounter) -> None:
        self._account = account
        self._counter = counter
        self._amount = 0

    @property
    def available(self) -> float:
        """How much more the quota allows; infinite where it has no limit."""
        return self._counter.limit - self._counter.use

    def check(self, requested: int = 1) -> None:
        """Refuses more than the quota allows (QuotaExceeded); changes nothing."""
        if requested > self.available:
            raise self.refusal(requested)

    def refusal(self, requested: int) -> QuotaExceeded:
        """Counts a refusal, and gives it."""
        return self._account.refusal(self._counter, requested=requested)

    def update(self, amount: int) -> None:
        """The holder has so much now, in all."""
        self._counter.use += amount - self._amount
        self._amount = amount


class Accounts:
    """The accounts of all tenants, by name.

    Args:
        bytes_in_flight: Limit of a tenant whose quota names none, bytes.
        now: The wall clock, seconds since 1970.

    Attributes:
        book: Device time of all of them.
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
        """The account of a tenant that may work.

        Raises:
            Unauthenticated: 207006, there is none: the tenant has gone, or is disabled.
        """
        account = self._accounts.get(tenant)
        if account is None or account.closed:
            raise Unauthenticated(f"tenant {tenant} is disabled or gone")
        return account

    def renew(self, tenants: Iterable[Tenant]) -> None:
        """The tenants of the service, all of them, beside LOCAL's own."""
        known = {tenant.name: tenant for tenant in tenants if tenant.name != LOCAL.tenant}
        for name in self._accounts.keys() - known.keys() - {LOCAL.tenant}:
            self._accounts.pop(name).closed = True
        for name, tenant in known.items():
            if name in self._accounts:
                self._accounts[name].renew(tenant)
            else:
                self._accounts[name] = self._new(tenant)

    def _new(self, tenant: Tenant) -> Account:
        return Account(tenant, self.book, bytes_in_flight=self._bytes_in_flight)
