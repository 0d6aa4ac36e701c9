"""Answers by request id, so that a retry gets the first answer instead of a second effect."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from opserve_kernels.status import Status
from opserve_server.core.errors import (
    InvalidArgument,
    LimitExceeded,
    OpserveError,
    OutOfMemory,
    Unavailable,
)

Answer = TypeVar("Answer")
RequestId = str | tuple[str, str]
"""A client's id, or its tenant and its id."""
PASSING = (LimitExceeded, OutOfMemory, Unavailable)
"""Refusals that a later try may escape."""


@dataclass(frozen=True, slots=True)
class _Request(Generic[Answer]):
    fingerprint: int
    task: asyncio.Task[Answer]


class AnsweredRequests(Generic[Answer]):
    """The latest answers of one session or service.

    A refusal is an answer too, but for one that a later try may escape.

    Args:
        limit: Answers kept at most, and requests under way.
        retained_bytes_limit: Bytes that kept answers may hold in all.
        size_bytes: Bytes that an answer holds.
    """

    def __init__(
        self, *, limit: int, retained_bytes_limit: int, size_bytes: Callable[[Answer], int]
    ) -> None:
        self._limit = limit
        self._retained_bytes_limit = retained_bytes_limit
        self._size_bytes = size_bytes
        self._requests: dict[RequestId, _Request[Answer]] = {}
        self._sizes: OrderedDict[RequestId, int] = OrderedDict()  # of those that are answered
        self._held_bytes = 0

    async def once(
        self,
        request_id: RequestId,
        request: object,
        work: Callable[[], Coroutine[Any, Any, Answer]],
    ) -> Answer:
        """The answer of `work`, which runs once for each request id.

        It goes on when the caller is cancelled, so that a retry finds its answer.

        Args:
            request_id: The client's id.
            request: What is asked, as a hashable value that differs for other requests.
            work: Does it.

        Raises:
            InvalidArgument: 107000, the id was used for another request.
            LimitExceeded: 207012, too many requests are under way.
        """
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
        self,
        request_id: RequestId,
        request: object,
        work: Callable[[], Coroutine[Any, Any, Answer]],
    ) -> _Request[Answer]:
        under_way = len(self._requests) - len(self._sizes)
        if under_way >= self._limit:
            raise LimitExceeded(
                Status.ACL_ERROR_RT_OVER_LIMIT,
                f"request_id: given one more than {under_way} requests under way, "
                f"allowed {self._limit}",
                parameter="request_id",
                given=under_way + 1,
                allowed=self._limit,
            )
        started = _Request(hash(request), asyncio.create_task(work()))
        self._requests[request_id] = started
        started.task.add_done_callback(lambda task: self._finished(request_id, task))
        return started

    def _finished(self, request_id: RequestId, task: asyncio.Task[Answer]) -> None:
        if not _is_answer(task):
            del self._requests[request_id]
            return
        self._sizes[request_id] = self._size_of(task)
        self._held_bytes += self._sizes[request_id]
        while len(self._requests) > self._limit or self._held_bytes > self._retained_bytes_limit:
            oldest, size_bytes = self._sizes.popitem(last=False)
            self._held_bytes -= size_bytes
            del self._requests[oldest]

    def _size_of(self, task: asyncio.Task[Answer]) -> int:
        return 0 if task.exception() else self._size_bytes(task.result())


def _is_answer(task: asyncio.Task[Any]) -> bool:
    """Whether a retry must get this outcome instead of another try."""
    if task.cancelled():
        return False
    error = task.exception()
    return error is None or (isinstance(error, OpserveError) and not isinstance(error, PASSING))
