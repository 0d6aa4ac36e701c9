"""Tables of handles: small integers, strictly increasing, never reused within a session."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from opserve_kernels.status import Status
from opserve_server.core.accounts import Account
from opserve_server.core.errors import HandleNotFound, InvalidArgument, LimitExceeded
from opserve_server.core.tenants import Resource

HANDLE_MAXIMUM = 2**32 - 1
Item = TypeVar("Item")


class HandleTable(Generic[Item]):
    """The live objects of one kind in a session.

    Args:
        kind: "buffer", "executor", "stream" or "event".
        account: Account that they are charged to; events are free, as they take next to no memory.
        limit: Live objects at most.
    """

    def __init__(self, kind: str, account: Account, *, limit: int) -> None:
        self.kind = kind
        resource = _CHARGED.get(kind)
        self._reservation = None if resource is None else account.reserve(resource)
        self._limit = limit
        self._items: dict[int, Item] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(list(self._items.values()))

    @property
    def last(self) -> int:
        """The greatest handle in use so far, or 0."""
        return self._last

    def next_handle(self, wanted: int) -> int:
        """The handle of the next object; changes nothing.

        Args:
            wanted: The client's choice, or 0.

        Raises:
            InvalidArgument: 107000, the choice is not greater than every earlier handle.
            LimitExceeded: The table is full, or the tenant's quota is used up.
        """
        # A client may choose the handle, so that one batch can create an object and use it.
        handle = wanted or self._last + 1
        if not self._last < handle <= HANDLE_MAXIMUM:
            raise InvalidArgument(
                Status.ACL_ERROR_RT_PARAM_INVALID,
                parameter=self.kind,
                given=wanted,
                allowed=f"{self._last + 1} to {HANDLE_MAXIMUM}",
            )
        if len(self._items) >= self._limit:
            raise LimitExceeded(
                _FULL[self.kind],
                f"This session has {self._limit} {self.kind}s, its limit: destroy one first.",
                parameter=self.kind,
                given=self._limit + 1,
                allowed=self._limit,
            )
        if self._reservation is not None:
            self._reservation.check()
        return handle

    def put(self, handle: int, item: Item) -> None:
        """Adds an object under a handle from next_handle."""
        # Strictly increasing: a retry or a late command can never meet a newer object under an old
        # handle.
        assert handle > self._last, "next_handle comes first"
        self._last = handle
        self._items[handle] = item
        self._count()

    def put_default(self, item: Item) -> None:
        """Adds the object with handle 0, which exists from the start (the default stream)."""
        # Handle 0 is outside the sequence of next_handle.
        self._items[0] = item
        self._count()

    def get(self, handle: int, *, null_status: Status | None = None) -> Item:
        """The object of a live handle.

        Args:
            handle: The client's handle.
            null_status: Code for handle 0, the null pointer, where it differs from that of the
                kind.

        Raises:
            InvalidArgument: The null pointer.
            HandleNotFound: 107017, anything else that is not live.
        """
        item = self._items.get(handle)
        if item is not None:
            return item
        if handle == 0:
            raise InvalidArgument(
                null_status or _NULL[self.kind],
                f"{self.kind} is 0, the null pointer: pass a live {self.kind}.",
                parameter=self.kind,
                given=0,
                allowed=f"a live {self.kind}",
            )
        # Handles are never reused, so a smaller unknown one existed before.
        gone = 0 < handle <= self._last
        allowed = _ALLOWED.get(self.kind, f"a live {self.kind} of this session")
        raise HandleNotFound(
            self.kind,
            f"{handle}, which is no longer there" if gone else handle,
            allowed=allowed,
            message=f"{self.kind} {handle} is no longer there; use {allowed}." if gone else "",
        )

    def remove(self, handle: int) -> Item:
        """Removes and returns a live object; its handle is dead from now on."""
        item = self.get(handle)
        del self._items[handle]
        self._count()
        return item

    def clear(self) -> None:
        """Removes every object, at the end of the session."""
        self._items.clear()
        self._count()

    def _count(self) -> None:
        if self._reservation is not None:
            self._reservation.update(len(self._items))


_CHARGED = {
    "buffer": Resource.BUFFERS,
    "executor": Resource.EXECUTORS,
    "stream": Resource.STREAMS,
}
_FULL = {
    "buffer": Status.ACL_ERROR_RT_OVER_LIMIT,
    "executor": Status.ACL_ERROR_RT_OVER_LIMIT,
    "stream": Status.ACL_ERROR_RT_NO_STREAM_RESOURCE,
    "event": Status.ACL_ERROR_RT_NO_EVENT_RESOURCE,
}
_NULL = {
    "buffer": Status.ACL_ERROR_INVALID_PARAM,
    "executor": Status.ACLNN_ERR_INNER_NULLPTR,
    "stream": Status.ACL_ERROR_INVALID_PARAM,
    "event": Status.ACL_ERROR_INVALID_PARAM,
}
_ALLOWED = {
    "executor": "a live executor of this session; one that is not repeatable runs once",
}
