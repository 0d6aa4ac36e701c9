"""Answers by request id: a retry gets the first answer instead of a second execution."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, fields
from functools import cache
from hashlib import sha256
from json import JSONEncoder
from typing import Any, Generic, TypeVar

from opserve_kernels.errors import VALUE_CHARACTERS, shortened
from opserve_kernels.status import Status
from opserve_server.core.errors import (
    InvalidArgument,
    LimitExceeded,
    Moved,
    OpserveError,
    OutOfMemory,
    Unavailable,
    unraised,
)

Answer = TypeVar("Answer")
PASSING = (LimitExceeded, Moved, OutOfMemory, Unavailable)
"""Rejections that a retry may avoid."""


def check_request_id(request_id: str, *, limit: int) -> None:
    """Rejects an id of too many characters (InvalidArgument, 107000)."""
    if len(request_id) > limit:
        raise InvalidArgument(
            Status.ACL_ERROR_RT_PARAM_INVALID,
            f"request_id has {len(request_id)} characters: use at most {limit}.",
            parameter="request_id",
            given=len(request_id),
            allowed=limit,
        )


@dataclass(frozen=True, slots=True)
class _UnderWay(Generic[Answer]):
    fingerprint: bytes
    task: asyncio.Task[Answer]


@dataclass(frozen=True, slots=True)
class _Kept(Generic[Answer]):
    """An outcome; an error in it was never raised, so that it keeps no frames alive."""

    fingerprint: bytes
    outcome: Answer | OpserveError
    size_bytes: int


class AnsweredRequests(Generic[Answer]):
    """The latest answers of one session, or of one tenant's session requests.

    A rejection is an answer too, unless a retry may avoid it.

    Args:
        limit: Answers kept, plus requests in progress, at most.
        retained_bytes_limit: Total bytes of kept answers.
        size_bytes: Returns the bytes of an answer.
    """

    def __init__(
        self, *, limit: int, retained_bytes_limit: int, size_bytes: Callable[[Answer], int]
    ) -> None:
        self._limit = limit
        self._retained_bytes_limit = retained_bytes_limit
        self._size_bytes = size_bytes
        self._under_way: dict[str, _UnderWay[Answer]] = {}
        self._kept: OrderedDict[str, _Kept[Answer]] = OrderedDict()
        self._held_bytes = 0

    async def once(
        self,
        request_id: str,
        request: object,
        work: Callable[[], Coroutine[Any, Any, Answer]],
    ) -> Answer:
        """The answer of `work`, which runs once for each request id.

        The work continues when the caller is cancelled, so that a retry finds its answer.

        Args:
            request_id: The client's id.
            request: The request: dataclasses, sequences, bytes and JSON values.
            work: Executes the request.

        Raises:
            InvalidArgument: 107000, the id was used for another request.
            LimitExceeded: 207012, too many requests are in progress.
        """
        fingerprint = _fingerprint(request)
        known = self._known(request_id, fingerprint) or self._start(request_id, fingerprint, work)
        return await _answer_of(known)

    async def at_once(
        self, request_id: str, request: object, work: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """As `once`, for work that never waits, and so is never cancelled: it needs no task."""
        fingerprint = _fingerprint(request)
        known = self._known(request_id, fingerprint)
        if known is not None:
            return await _answer_of(known)
        self._check_room()
        try:
            answer = await work()
        except OpserveError as error:
            if not isinstance(error, PASSING):
                self._keep(request_id, _Kept(fingerprint, unraised(error), _text_bytes(error)))
            raise
        self._keep(request_id, _Kept(fingerprint, answer, self._size_bytes(answer)))
        return answer

    def _known(
        self, request_id: str, fingerprint: bytes
    ) -> "_Kept[Answer] | _UnderWay[Answer] | None":
        known = self._kept.get(request_id) or self._under_way.get(request_id)
        # A client that reuses an id by mistake would get the answer of another request.
        if known is not None and known.fingerprint != fingerprint:
            raise InvalidArgument(
                Status.ACL_ERROR_RT_PARAM_INVALID,
                f"request_id '{shortened(request_id, VALUE_CHARACTERS)}' named another request: "
                "use a new id for each request.",
                parameter="request_id",
                given=request_id,
                allowed="a new id for each request",
            )
        return known

    def _start(
        self,
        request_id: str,
        fingerprint: bytes,
        work: Callable[[], Coroutine[Any, Any, Answer]],
    ) -> _UnderWay[Answer]:
        self._check_room()
        started = _UnderWay(fingerprint, asyncio.create_task(work()))
        self._under_way[request_id] = started
        # The outcome is kept even if no caller waits any more: their retry is to find it.
        started.task.add_done_callback(lambda _: self._finished(request_id))
        return started

    def _check_room(self) -> None:
        # Requests in progress cannot be evicted, so their number is bounded instead.
        under_way = len(self._under_way)
        if under_way >= self._limit:
            raise LimitExceeded(
                Status.ACL_ERROR_RT_OVER_LIMIT,
                f"{under_way} requests with an id are in progress, the limit: retry when one has "
                "its answer.",
                parameter="request_id",
                given=under_way + 1,
                allowed=self._limit,
            )

    def _finished(self, request_id: str) -> None:
        ended = self._under_way.pop(request_id)
        # A cancelled or temporarily rejected request is not an answer: a retry executes it again.
        if not _is_answer(ended.task):
            return
        error = ended.task.exception()
        kept: _Kept[Answer]
        if isinstance(error, OpserveError):
            kept = _Kept(ended.fingerprint, unraised(error), _text_bytes(error))
        else:
            answer = ended.task.result()
            kept = _Kept(ended.fingerprint, answer, self._size_bytes(answer))
        self._keep(request_id, kept)

    def _keep(self, request_id: str, kept: _Kept[Answer]) -> None:
        self._kept[request_id] = kept
        self._held_bytes += kept.size_bytes
        # The oldest answers go first: a client retries its latest requests.
        while (
            len(self._kept) + len(self._under_way) > self._limit
            or self._held_bytes > self._retained_bytes_limit
        ):
            _, oldest = self._kept.popitem(last=False)
            self._held_bytes -= oldest.size_bytes


async def _answer_of(known: _Kept[Answer] | _UnderWay[Answer]) -> Answer:
    # A retry during the first execution waits for it; the shield keeps the work alive if this
    # caller is cancelled too.
    if isinstance(known, _UnderWay):
        return await asyncio.shield(known.task)
    if isinstance(known.outcome, OpserveError):
        # A copy, since raising an error attaches frames to it, which the table would keep alive.
        raise unraised(known.outcome)
    return known.outcome


def _is_answer(task: asyncio.Task[Any]) -> bool:
    """Whether a retry must get this outcome instead of another execution."""
    if task.cancelled():
        return False
    error = task.exception()
    return error is None or (isinstance(error, OpserveError) and not isinstance(error, PASSING))


def _text_bytes(error: OpserveError) -> int:
    return sum(len(text) for text in (error.message, error.given, error.allowed))


def _fingerprint(request: object) -> bytes:
    """A small digest that differs for different requests."""
    return sha256(_TEXT.encode(request).encode()).digest()


def _parts(value: object) -> object:
    """A JSON form of other values: bytes by their digest, a dataclass by its class and fields."""
    if isinstance(value, bytes):
        return sha256(value).hexdigest()
    kind: type = type(value)
    return [kind.__name__, *(getattr(value, name) for name in _field_names(kind))]


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


_TEXT = JSONEncoder(check_circular=False, default=_parts)
