"""Session requests: open a session, and open it again after it is lost."""

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
from opserve_client._async.services import AsyncServices
from opserve_client.wire.methods import OPEN_SESSION, SET_DETERMINISTIC_LEVEL

_FIRST_REPORT_S = 0.2
"""Seconds until the first answer that reports a position in the queue: short requests have none."""
_REPORT_INTERVAL_S = 5.0
"""Seconds between two answers that report a position in the queue."""


class AsyncSessionOpener:
    """A session request that can be sent repeatedly.

    Args:
        services: Connections to the services of a farm.
        request: The request, without a request id.
        on_position: Called with the position in the queue.

    Attributes:
        services: Connections to the services of a farm.
        deterministic_level: Level to set in each session that is opened; None sets none.
    """

    def __init__(
        self,
        services: AsyncServices,
        request: OpenSessionRequest,
        on_position: Callable[[Waiting], object] | None,
    ) -> None:
        self.services = services
        self._request = request
        self._on_position = on_position
        self.deterministic_level: DeterministicLevel.ValueType | None = None

    async def open(self) -> tuple[AsyncConnection, OpenSessionResponse]:
        """Opens a session; waits in the queue for a device if the request has a `wait_s`.

        Returns:
            The connection to the service that has the session, and the response.
        """
        request = OpenSessionRequest()
        request.CopyFrom(self._request)
        if request.wait_s:
            # One wait takes many calls. They share an id, so that the service continues the first
            # call's place in the queue, and a lost answer loses no place.
            request.request_id = uuid4().hex
            request.tell_after_s = _FIRST_REPORT_S
        connection, opened = await self.services.anywhere(
            OPEN_SESSION, request, at=self.services.home
        )
        while opened.HasField("waiting"):
            if self._on_position is not None:
                self._on_position(opened.waiting)
            request.tell_after_s = _REPORT_INTERVAL_S
            connection, opened = await self.services.anywhere(OPEN_SESSION, request, at=connection)
        if self.deterministic_level is not None:
            level = SetDeterministicLevelRequest(
                session=opened.session, level=self.deterministic_level
            )
            await connection.call(SET_DETERMINISTIC_LEVEL, level)
        return connection, opened
