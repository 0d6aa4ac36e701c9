"""Uploads: bodies in temporary files, charged to their tenant, with a common bound."""

import errno
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from opserve_kernels.status import Status
from opserve_server.core.accounts import Account, Reservation
from opserve_server.core.errors import LimitExceeded, OutOfMemory
from opserve_server.core.tenants import Resource

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM})


class Uploads:
    """Bytes of all uploads in progress.

    A tenant may use as much as is still free, so one alone at most half of the limit: there is
    always space for another tenant.

    Args:
        limit_bytes: Limit of all uploads together.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held = Counter[str]()

    @contextmanager
    def upload(self, account: Account) -> Generator["Upload"]:
        """A body of a tenant, released when the block ends.

        Raises:
            OutOfMemory: 207001, the disk of the temporary files is full.
        """
        upload = Upload(self, account.tenant.name, account.reserve(Resource.BYTES_IN_FLIGHT))
        try:
            yield upload
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise
            raise _disk_full(upload.size_bytes) from error
        finally:
            upload.end()

    def take(self, tenant: str, size_bytes: int) -> None:
        """Counts more bytes of a tenant, or rejects them (LimitExceeded, 207012)."""
        free = self._limit_bytes - self._held.total()
        # A tenant may have as much as all together leave free: alone half of the limit, less beside
        # others. So a second tenant always finds space.
        if self._held[tenant] + size_bytes > free - size_bytes:
            raise _too_many(self._held[tenant] + size_bytes, free)
        self._held[tenant] += size_bytes

    def give_back(self, tenant: str, size_bytes: int) -> None:
        """Releases bytes of a tenant."""
        self._held[tenant] -= size_bytes
        if not self._held[tenant]:
            del self._held[tenant]


class Upload:
    """One body.

    Attributes:
        size_bytes: Bytes received so far.
    """

    def __init__(self, uploads: Uploads, tenant: str, in_flight: Reservation) -> None:
        self._uploads, self._tenant, self._in_flight = uploads, tenant, in_flight
        self.size_bytes = 0

    def grow(self, size_bytes: int) -> None:
        """Counts received bytes.

        Raises:
            QuotaExceeded: The tenant has too many bytes in flight.
            LimitExceeded: 207012, all tenants together upload too much.
        """
        # Both limits are checked before either is charged.
        self._in_flight.check(size_bytes)
        self._uploads.take(self._tenant, size_bytes)
        self.size_bytes += size_bytes
        self._in_flight.update(self.size_bytes)

    def end(self) -> None:
        """Releases its bytes."""
        self._uploads.give_back(self._tenant, self.size_bytes)
        self.size_bytes = 0
        self._in_flight.update(0)


def _disk_full(size_bytes: int) -> OutOfMemory:
    return OutOfMemory(
        Status.ACL_ERROR_RT_MEMORY_ALLOCATION,
        f"The service's folder of temporary files has no space for a body of {size_bytes} bytes or "
        "more: send it again later.",
        parameter="body",
        given=f"{size_bytes} bytes or more",
        allowed="what the service's folder of temporary files has room for",
    )


def _too_many(given: int, free: int) -> LimitExceeded:
    return LimitExceeded(
        Status.ACL_ERROR_RT_OVER_LIMIT,
        f"This body makes {given} bytes of uploads at once, and all tenants leave {free} free: "
        "send it again later.",
        parameter="body",
        given=f"{given} bytes of uploads at once",
        allowed=f"{free}, what all tenants leave free",
    )
