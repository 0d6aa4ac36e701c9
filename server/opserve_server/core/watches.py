"""Watches: the state of the service as items by name, and its changes once a second.

The items of all watches are computed once a second, and not at all without a watch. Watches of one
audience share a view. A watch only remembers the number of its last event, so a slow reader gets
the changes since then in one event, and costs no memory.
"""

import asyncio
import json
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    Iterable,
    Mapping,
)
from contextlib import aclosing, contextmanager
from dataclasses import asdict, dataclass
from typing import NamedTuple

from opserve_kernels.status import Status
from opserve_server.core.errors import LimitExceeded
from opserve_server.core.history import NoNews
from opserve_server.core.limits import Limits
from opserve_server.core.principal import Principal, Scope
from opserve_server.core.time_slices import in_slices

MEMBERS = ("devices", "waiting", "sessions", "runs", "service")
"""Members of an event: each maps names to items."""
WATCHES_LIMIT = 256
"""Watches of all tenants at once."""
KEPT_UPDATES = 60
"""Updates for which the end of an item is kept; a watch that is further behind ends."""
_GONE = "null"


@dataclass(frozen=True, slots=True)
class Audience:
    """Callers that see the same items."""

    tenant: str
    scopes: frozenset[Scope]

    @property
    def is_admin(self) -> bool:
        """Whether they see the items of all tenants."""
        return Scope.ADMIN in self.scopes


class Item(NamedTuple):
    """An item of an audience.

    Attributes:
        member: Its member of an event.
        name: Its name within the member.
        value: The item, as JSON or a dataclass.
        stamp: Compared with that of the update before; an equal one is no change.
    """

    member: str
    name: str
    value: object
    stamp: object


@dataclass(frozen=True, slots=True)
class Change:
    """Items that changed.

    Attributes:
        id: Number of the update.
        data: A JSON object of MEMBERS; an item that is gone is null.
    """

    id: int
    data: str


Gather = Callable[[Collection[Audience]], Awaitable[Mapping[Audience, Iterable[Item]]]]


@dataclass(slots=True)
class _Shown:
    """An item as JSON, and the update in which it changed."""

    stamp: object
    text: str
    update: int


class View:
    """The items of an audience, with the update in which each changed.

    Attributes:
        number: Number of the latest update.
        watches: Watches that read the view.
    """

    def __init__(self) -> None:
        self.number = 0
        self.watches = 0
        self._shown: dict[tuple[str, str], _Shown] = {}
        self._changes: dict[int, Change | None] = {}

    async def update(self, items: Iterable[Item]) -> None:
        """Compares with the items before."""
        number, found = self.number + 1, set[tuple[str, str]]()
        async for item in in_slices(items):
            key = item.member, item.name
            found.add(key)
            shown = self._shown.get(key)
            if shown is None or shown.stamp != item.stamp or shown.text == _GONE:
                self._shown[key] = _Shown(item.stamp, _json(item.value), number)
        for key in self._shown.keys() - found:
            shown = self._shown[key]
            if shown.text != _GONE:
                self._shown[key] = _Shown(None, _GONE, number)
            elif shown.update < number - KEPT_UPDATES:
                del self._shown[key]
        self.number = number
        self._changes.clear()

    def change(self, after: int) -> Change | None:
        """The changes after an update, or all items after 0; None without a change."""
        if after not in self._changes:  # of watches that read in time, it is the same one
            self._changes[after] = self._change(after)
        return self._changes[after]

    def _change(self, after: int) -> Change | None:
        members: dict[str, list[str]] = {member: [] for member in MEMBERS}
        for (member, name), shown in self._shown.items():
            if shown.update > after and (after or shown.text != _GONE):
                members[member].append(f"{_json(name)}:{shown.text}")
        if after and not any(members.values()):
            return None
        parts = (f'"{member}":{{{",".join(texts)}}}' for member, texts in members.items())
        return Change(self.number, f"{{{','.join(parts)}}}")


class Watches:
    """The watches of a service.

    Args:
        gather: Computes the items of audiences.
        limits: Bounds on the watches of a tenant, and on the time of one.
    """

    def __init__(self, gather: Gather, *, limits: Limits) -> None:
        self._gather, self._limits = gather, limits
        self._views: dict[Audience, View] = {}
        self._tenants = Counter[str]()
        self._ended = False
        self._updating = asyncio.Lock()
        self._news: asyncio.Future[None] | None = None

    @property
    def count(self) -> int:
        """Open watches."""
        return self._tenants.total()

    async def tick(self) -> None:
        """Updates the views that are watched."""
        if self._views:
            await self._update(dict(self._views))
            self._wake()

    def end(self) -> None:
        """Ends all watches, now and later: the service ends."""
        self._ended = True
        self._wake()

    async def watch(self, principal: Principal) -> AsyncGenerator[Change | NoNews]:
        """All items that a caller may see, then the changes of each second.

        Raises:
            LimitExceeded: 207012, the tenant or the service has too many watches.
        """
        audience = Audience(principal.tenant, principal.scopes)
        with self._watching(audience) as view:
            if not view.number:
                await self._update({audience: view})
            async with aclosing(self._news_of(view)) as news:
                async for one in news:
                    yield one

    async def _news_of(self, view: View) -> AsyncGenerator[Change | NoNews]:
        loop = asyncio.get_running_loop()
        last, spoke_s = 0, loop.time()
        end_s = spoke_s + self._limits.watch_limit_s
        while not self._ended and (not last or loop.time() < end_s):  # the first event, always
            if 0 < last < view.number - KEPT_UPDATES:
                return  # items may be gone without a trace: the client watches anew
            change = view.change(last) if view.number > last else None
            last = view.number
            quiet_s = spoke_s + self._limits.watch_quiet_limit_s - loop.time()
            if change is None and quiet_s > 0:
                await self._wait(min(quiet_s, end_s - loop.time()))
                continue
            spoke_s = loop.time()
            yield NoNews() if change is None else change

    async def _update(self, views: Mapping[Audience, View]) -> None:
        # One at a time: items are compared in slices, between which other calls run.
        async with self._updating:
            gathered = await self._gather(views)
            for audience, view in views.items():
                await view.update(gathered[audience])

    @contextmanager
    def _watching(self, audience: Audience) -> Generator[View]:
        """Counts a watch, and keeps its view."""
        tenant = audience.tenant
        if self._tenants[tenant] >= self._limits.tenant_watches_limit:
            raise _too_many(self._limits.tenant_watches_limit, owner="this tenant's")
        if self.count >= WATCHES_LIMIT:
            raise _too_many(WATCHES_LIMIT, owner="the service's")
        view = self._views.setdefault(audience, View())
        self._tenants[tenant] += 1
        view.watches += 1
        try:
            yield view
        finally:
            self._tenants[tenant] -= 1
            view.watches -= 1
            if not view.watches:
                del self._views[audience]

    async def _wait(self, timeout_s: float) -> None:
        """Waits for the next update."""
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._news], timeout=timeout_s)

    def _wake(self) -> None:
        if self._news is not None:
            # One future serves all watches; the next one to wait makes a new one.
            self._news.set_result(None)
            self._news = None


def _json(value: object) -> str:
    return json.dumps(value, default=asdict, separators=(",", ":"), allow_nan=False)


def _too_many(limit: int, *, owner: str) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"{limit} watches are open, {owner} limit: close one, or retry later.",
        parameter="watches",
        given=limit + 1,
        allowed=limit,
    )
