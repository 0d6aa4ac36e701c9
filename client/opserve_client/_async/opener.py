"""Opens a session as it was asked for: at first, and again when it is lost."""

from collections.abc import Callable
from uuid import uuid4

from opserve.v1.session_service_pb2 import (
    DeterministicLevel,
    OpenSessionRequest,
    OpenSessionResponse,
    SetDeterministicLevelRequest,
    Waiting,
)
from opserve_client._async.connection import AsyncConnection
from opserve_client.wire.methods import OPEN_SESSION, SET_DETERMINISTIC_LEVEL

_FIRST_TOLD_S = 0.2
_TOLD_S = 5.0
"""Seconds between two answers that report a place in the queue."""


class AsyncOpener:
    """A request for a device.

    Args:
        connection: The way to the service.
        request: What is asked for, without a request id.
        on_position: Is called with the place in the queue.

    Attributes:
        deterministic_level: Of the session, where it was set.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        request: OpenSessionRequest,
        on_position: Callable[[Waiting], object] | None,
    ) -> None:
        self._connection = connection
        self._request = request
        self._on_position = on_position
        self.deterministic_level: DeterministicLevel.ValueType | None = None

    async def open(self) -> OpenSessionResponse:
        """Opens a session, after its wait in the queue."""
        request = OpenSessionRequest()
        request.CopyFrom(self._request)
        if request.wait_s:  # in many calls, which the service takes for one by their id
            request.request_id = uuid4().hex
            request.tell_after_s = _FIRST_TOLD_S
        opened = await self._connection.call(OPEN_SESSION, request)
        while opened.HasField("waiting"):
            if self._on_position is not None:
                self._on_position(opened.waiting)
            request.tell_after_s = _TOLD_S
            opened = await self._connection.call(OPEN_SESSION, request)
        if self.deterministic_level is not None:
            level = SetDeterministicLevelRequest(
                session=opened.session, level=self.deterministic_level
            )
            await self._connection.call(SET_DETERMINISTIC_LEVEL, level)
        return opened
