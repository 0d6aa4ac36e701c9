"""How sessions are opened: once for each request id, at once or after a wait."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial

from opserve_kernels.status import Status
from opserve_server.core.asking import SessionRequest
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.infos import OpenedSession, WaitingInfo
from opserve_server.core.limits import Limits
from opserve_server.core.principal import Principal
from opserve_server.core.requests import AnsweredRequests, check_request_id
from opserve_server.core.session import Session
from opserve_server.core.sessions import Sessions
from opserve_server.core.waiting_line import PlaceKey


class Openings:
    """Opens sessions for those who ask, some of them more than once.

    Args:
        sessions: Where they are.
        limits: Bounds.
        told: What a client is told of its session.
    """

    def __init__(
        self, sessions: Sessions, *, limits: Limits, told: Callable[[Session], OpenedSession]
    ) -> None:
        self._sessions = sessions
        self._limits = limits
        self._told = told
        # A table for each tenant: no other one can push an answer out that a retry asks for.
        self._answered = defaultdict[str, AnsweredRequests[OpenedSession]](
            lambda: AnsweredRequests(
                limit=limits.sessions_limit + limits.tenant_waiting_limit,
                retained_bytes_limit=limits.retained_bytes_limit,
                size_bytes=lambda _: 0,
            )
        )

    async def open(
        self, principal: Principal, asked: SessionRequest, *, request_id: str
    ) -> OpenedSession:
        """Opens a session, and waits no longer than any call may; raises as Sessions.open does."""
        check_request_id(request_id, limit=self._limits.name_length_limit)
        limit_s = self._limits.wait_limit_s
        if not request_id:
            return await self._open(principal, asked, key=None, wait_limit_s=limit_s)
        with self._sessions.line.attended((principal.tenant, request_id)):
            return await self._open_once(principal, asked, request_id, wait_limit_s=limit_s)

    async def ask(
        self, principal: Principal, asked: SessionRequest, *, request_id: str, tell_after_s: float
    ) -> OpenedSession | WaitingInfo:
        """Opens a session, or tells after a while how the request waits; to be asked again then.

        The place is kept for waiting_return_s while nobody asks. It is passed over meanwhile if
        the call before was cancelled, and not if that one had its answer.

        Args:
            principal: Who asks.
            asked: What for.
            request_id: The same for each call of one wait.
            tell_after_s: Seconds after which an answer comes in any case.

        Raises:
            InvalidArgument: 107000, there is no request id, or no time.
            OpserveError: As Sessions.open does.
        """
        check_request_id(request_id, limit=self._limits.name_length_limit)
        _check_may_be_told(request_id, tell_after_s)
        key, limit_s = (principal.tenant, request_id), self._limits.device_wait_limit_s
        line = self._sessions.line
        with line.attended(key):
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(tell_after_s, self._limits.wait_limit_s)):
                        return await self._open_once(
                            principal, asked, request_id, wait_limit_s=limit_s
                        )
                for waiting in line.infos(lambda place: place.key == key):
                    return waiting

    def forget_all_but(self, tenants: Collection[str]) -> None:
        """What tenants that are gone were answered is forgotten."""
        for gone in self._answered.keys() - set(tenants):
            del self._answered[gone]

    async def _open_once(
        self, principal: Principal, asked: SessionRequest, request_id: str, *, wait_limit_s: float
    ) -> OpenedSession:
        key = (principal.tenant, request_id)
        opening = partial(self._open, principal, asked, key=key, wait_limit_s=wait_limit_s)
        return await self._answered[principal.tenant].once(request_id, asked, opening)

    async def _open(
        self,
        principal: Principal,
        asked: SessionRequest,
        *,
        key: PlaceKey | None,
        wait_limit_s: float,
    ) -> OpenedSession:
        return self._told(
            await self._sessions.open(principal, asked, key=key, wait_limit_s=wait_limit_s)
        )


def _check_may_be_told(request_id: str, tell_after_s: float) -> None:
    if not request_id or not tell_after_s > 0:  # a NaN is not
        with_id = "with" if request_id else "without"
        raise InvalidArgument(
            Status.ACL_ERROR_RT_PARAM_INVALID,
            f"tell_after_s: given {tell_after_s:g} {with_id} a request id, allowed more than 0 "
            "with a request id",
            parameter="tell_after_s",
            given=tell_after_s,
            allowed="more than 0 with a request id",
        )
