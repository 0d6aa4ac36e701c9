"""Answers by request id, so that a retry gets the first answer instead of a second effect."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from opserve_kernels.status import Status
from opserve_server.core.errors import InvalidArgument

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Request(Generic[Answer]):
    fingerprint: int
    task: asyncio.Task[Answer]


class AnsweredRequests(Generic[Answer]):
    """The latest answers of one session or tenant; a refused request is not among them.

    Args:
        limit: Answers kept at most.
        retained_bytes_limit: Bytes that kept answers may hold in all.
        size_bytes: Bytes that an answer holds.
    """

    def __init__(
        self, *, limit: int, retained_bytes_limit: int, size_bytes: Callable[[Answer], int]
    ) -> None:
        self._limit = limit
        self._retained_bytes_limit = retained_bytes_limit
        self._size_bytes = size_bytes
        self._requests: OrderedDict[str, _Request[Answer]] = OrderedDict()
        self._held_bytes = 0

    async def once(
        self, request_id: str, request: object, work: Callable[[], Coroutine[Any, Any, Answer]]
    ) -> Answer:
        """The answer of `work`, which runs once for each request id.

        Without an id it simply runs. With one it goes on when the caller is cancelled, so that a
        retry finds its answer.

        Args:
            request_id: The client's id, or "".
            request: What is asked; a hashable value.
            work: Does it.

        Raises:
            InvalidArgument: 107000, the id was used for another request.
        """
        if not request_id:
            return await work()
        known = self._requests.get(request_id)
        if known is None:
            known = self._start(request_id, request, work)
        elif known.fingerprint != hash(request):
            raise InvalidArgument(
                Status.ACL_ERROR_RT_PARAM_INVALID,
                f"request_id: given {request_id}, which named another request, "
                "allowed a new id for each request",
                parameter="request_id",
                given=request_id,
                allowed="a new id for each request",
            )
        return await asyncio.shield(known.task)

    def _start(
        self, request_id: str, request: object, work: Callable[[], Coroutine[Any, Any, Answer]]
    ) -> _Request[Answer]:
        started = _Request(hash(request), asyncio.create_task(work()))
        self._requests[request_id] = started
        started.task.add_done_callback(lambda task: self._finished(request_id, task))
        return started

    def _finished(self, request_id: str, task: asyncio.Task[Answer]) -> None:
        if task.cancelled() or task.exception() is not None:
            del self._requests[request_id]
            return
        self._held_bytes += self._size_bytes(task.result())
        while (
            len(self._requests) > self._limit or self._held_bytes > self._retained_bytes_limit
        ) and self._drop_oldest():
            pass

    def _drop_oldest(self) -> bool:
        for request_id, request in self._requests.items():
            if request.task.done():
                del self._requests[request_id]
                self._held_bytes -= self._size_bytes(request.task.result())
                return True
        return False
