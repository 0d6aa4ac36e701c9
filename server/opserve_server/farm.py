"""Membership in a farm: registers the service in the store, and renews its lease there.

The store ends a lease by its own clock. The service counts it by the monotonic clock from the start
of its last successful renewal, which is earlier, so it never opens sessions after the others have
stopped to list it.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from math import inf
from secrets import token_hex
from typing import Any

from opserve_kernels.description import describe
from opserve_kernels.operator import variant_on
from opserve_kernels.profiles import DEFAULT_PROFILE, PROFILES
from opserve_kernels.registry import OPERATORS, operators_of
from opserve_server.core.errors import StoreUnavailable
from opserve_server.core.farm import DeviceRecord, ServiceRecord
from opserve_server.core.info import DeviceInfo
from opserve_server.core.service import Service
from opserve_server.store.services import Reading, ServiceRow, Services
from opserve_server.store.waiting import WaitingLine
from opserve_server.version import VERSION

LONGEST_INTERVAL_S = 2.0
"""Longest time between two renewals, seconds."""
LINE_INTERVAL_S = 1.0
"""Seconds between two exchanges of the waiting line while requests wait here, or a device is kept
for one of another service; otherwise each renewal exchanges."""
FULL_READING_S = 30.0
"""Seconds between two readings of the whole directory; the others read what changed."""
_RENEWALS_PER_LEASE = 5
_DIGEST_CHARACTERS = 16
log = logging.getLogger(__name__)


class Membership:
    """The farm of this service, and its lease.

    Args:
        name: Name of the service in the farm.
        lease_s: Seconds that the lease lasts without a renewal.
        clock: A monotonic clock, seconds.

    Attributes:
        name: Name of the service in the farm.
        own: The service as it was registered.
        others: The other live services, at the last renewal.
        epoch: Number of the registration; the store rejects reports with an older one.
        ahead_s: The store's clock, less that of the event loop, seconds.
        superseded: Whether another process has taken the name.
    """

    def __init__(
        self, name: str, *, lease_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = name
        self.own: ServiceRecord | None = None
        self.others: Sequence[ServiceRecord] = ()
        self.epoch = 0
        self.ahead_s = 0.0
        self.superseded = False
        self.interval_s = min(lease_s / _RENEWALS_PER_LEASE, LONGEST_INTERVAL_S)
        self._lease_s = lease_s
        self._clock = clock
        self._instance = token_hex(16)
        self._lease_ends_s = -inf
        self._answered = True
        self._records: dict[str, ServiceRecord] = {}
        self._since_s = 0.0
        self._whole_s = -inf

    @property
    def accepts(self) -> bool:
        """Whether the lease lasts."""
        return not self.superseded and self._clock() < self._lease_ends_s

    async def begin(
        self,
        services: Services,
        line: WaitingLine,
        service: Service,
        *,
        grpc_address: str,
        http_address: str,
    ) -> None:
        """Registers the service under its name, also where a process already has it.

        Raises:
            StoreUnavailable: The store does not answer.
        """
        self.own = ServiceRecord(
            name=self.name,
            grpc_address=grpc_address,
            http_address=http_address,
            version=VERSION,
            contract=contract_revision(),
            drains=False,
            devices=(),
        )
        began_s = self._clock()
        self.epoch = await services.register(self._row(service), lease_s=self._lease_s)
        self._lease_ends_s = began_s + self._lease_s
        await self.renew(services, service)
        await self.share(line, service)

    async def renew(self, services: Services, service: Service) -> None:
        """Renews the lease, or registers again after its end; reads the other services.

        Raises:
            StoreUnavailable: The store does not answer.
        """
        began_s = self._clock()
        row = self._row(service)
        is_whole = began_s - self._whole_s >= FULL_READING_S
        since_s = 0.0 if is_whole else self._since_s
        found = await services.renew(row, epoch=self.epoch, lease_s=self._lease_s, since_s=since_s)
        if found is None:
            epoch = await services.register_again(row, lease_s=self._lease_s)
            if epoch is None:
                self.superseded = True
                self.others = ()
                return
            log.warning("the lease of %s had ended: registered again", self.name)
            self.epoch, found = epoch, await services.read()
        self._note(found)
        if is_whole:
            self._whole_s = began_s
        service.accounts.count_elsewhere(other.uses for other in self.others)
        self._lease_ends_s = began_s + self._lease_s

    def _note(self, found: Reading) -> None:
        """Brings the other services up to date."""
        known = self._records | {row.name: _record_of(row) for row in found.changed}
        self._records = {name: known[name] for name in found.live if name in known}
        self.others = [one for one in self._records.values() if one.name != self.name]
        # One that is live and unknown changed in a transaction of unusual length: read all again.
        self._since_s = found.now_s if len(self._records) == len(found.live) else 0.0

    async def share(self, line: WaitingLine, service: Service) -> None:
        """Exchanges waiting requests with the other services.

        Raises:
            StoreUnavailable: The store does not answer.
        """
        queue, ended = service.device_queue, set(service.device_queue.ended)
        found = await line.exchange(
            queue.own(), ended, epoch=self.epoch, profiles=self._profiles(service)
        )
        if found is None:
            service.meet(())
            return
        queue.ended -= ended
        self.ahead_s = found.now_s - asyncio.get_running_loop().time()
        queue.rank(found.ranks)
        for key, other in found.moved.items():
            queue.send_on(key, other)
        service.meet(found.waiting)
        wanted = queue.wanted()
        if wanted:
            queue.forget(set(wanted) - await line.claim(wanted, epoch=self.epoch))
        if service.draining:
            await line.release(epoch=self.epoch)

    async def keep(self, services: Services, line: WaitingLine, service: Service) -> None:
        """Renews and exchanges until it is cancelled, or another process takes the name."""
        renewed_s = self._clock()
        while not self.superseded:
            await asyncio.sleep(min(self.interval_s, LINE_INTERVAL_S))
            try:
                due = self._clock() - renewed_s >= self.interval_s
                if due:
                    renewed_s = self._clock()
                    await self.renew(services, service)
                if due or service.device_queue.is_shared:
                    await self.share(line, service)
            except StoreUnavailable:
                service.meet(())  # a device is kept for nobody whose claim is unknown
                if self._answered:
                    log.warning("the farm's store does not answer: no session after the lease")
                self._answered = False
            except Exception:  # the directory may have rows of a newer version
                service.meet(())
                log.exception("the directory of the farm cannot be read")
            else:
                self._answered = True
        log.error(
            "another process has registered as %s in the farm: this one drains. Give each service "
            "a name of its own (OPSERVE_FARM_NAME)",
            self.name,
        )
        await service.drain()

    async def end(self, services: Services) -> None:
        """Removes the service from the directory."""
        self._lease_ends_s = -inf
        try:
            await services.leave(self.name, epoch=self.epoch)
        except StoreUnavailable:
            log.warning("the service stays in the directory until its lease ends")

    def _profiles(self, service: Service) -> set[str]:
        return {device.info.profile for device in service.device_records()}

    def _row(self, service: Service) -> ServiceRow:
        assert self.own is not None, "begin has registered it"
        return ServiceRow(
            name=self.name,
            instance=self._instance,
            grpc_address=self.own.grpc_address,
            http_address=self.own.http_address,
            version=self.own.version,
            contract=self.own.contract,
            kernel_variant=variant_on(PROFILES[DEFAULT_PROFILE]),
            drains=service.draining,
            devices=json.dumps([_stored(one) for one in service.device_records()]),
            uses=json.dumps(service.accounts.uses()),
        )


@asynccontextmanager
async def joined(
    membership: Membership,
    services: Services,
    line: WaitingLine,
    service: Service,
    *,
    grpc_address: str,
    http_address: str,
) -> AsyncGenerator[None]:
    """Keeps a service in the directory until the block ends.

    Raises:
        StoreUnavailable: The store does not answer.
    """
    await membership.begin(
        services, line, service, grpc_address=grpc_address, http_address=http_address
    )
    keeping = asyncio.create_task(membership.keep(services, line, service))
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        await membership.end(services)


@cache
def contract_revision() -> str:
    """Digest of the descriptions of all operators."""
    described = [repr(describe(operator)) for operator in OPERATORS.values()]
    return sha256("\n".join(described).encode()).hexdigest()[:_DIGEST_CHARACTERS]


_DERIVED = {"products", "operators", "host"}
"""Members of a device that follow from its profile and service."""


def _stored(device: DeviceRecord) -> Mapping[str, object]:
    info = {name: one for name, one in asdict(device.info).items() if name not in _DERIVED}
    return info | {"room": device.room, "exclusive_room": device.exclusive_room}


def _record_of(row: ServiceRow) -> ServiceRecord:
    return ServiceRecord(
        name=row.name,
        grpc_address=row.grpc_address,
        http_address=row.http_address,
        version=row.version,
        contract=row.contract,
        drains=row.drains,
        devices=tuple(_device_of(one, host=row.name) for one in json.loads(row.devices)),
        uses=json.loads(row.uses),
    )


def _device_of(stored: dict[str, Any], *, host: str) -> DeviceRecord:
    """A device of another service; one of a later version may have further members and profiles."""
    profile = PROFILES.get(stored["profile"])
    known: dict[str, Any] = {name: stored[name] for name in _STORED if name in stored}
    known["tags"] = tuple(stored["tags"])
    info = DeviceInfo(
        **known,
        products="" if profile is None else profile.products,
        operators=() if profile is None else tuple(one.call for one in operators_of(profile.name)),
        host=host,
    )
    return DeviceRecord(info=info, room=stored["room"], exclusive_room=stored["exclusive_room"])


_STORED = DeviceInfo.__dataclass_fields__.keys() - _DERIVED
