"""A session: a tenant's lease on one device, and everything that lives in it."""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from opserve_kernels.status import Status
from opserve_server.core.buffers import Buffer
from opserve_server.core.commands import Content, Result
from opserve_server.core.devices import Device
from opserve_server.core.events import Event
from opserve_server.core.executors import Executor
from opserve_server.core.handles import HandleTable
from opserve_server.core.limits import Limits
from opserve_server.core.memory import SessionMemory
from opserve_server.core.requests import AnsweredRequests
from opserve_server.core.streams import Stream

Item = TypeVar("Item")
_REFUSALS = {
    "buffer": (Status.ACL_ERROR_RT_OVER_LIMIT, Status.ACL_ERROR_INVALID_PARAM),
    "executor": (Status.ACL_ERROR_RT_OVER_LIMIT, Status.ACLNN_ERR_INNER_NULLPTR),
    "stream": (Status.ACL_ERROR_RT_NO_STREAM_RESOURCE, Status.ACL_ERROR_INVALID_PARAM),
    "event": (Status.ACL_ERROR_RT_NO_EVENT_RESOURCE, Status.ACL_ERROR_INVALID_PARAM),
}
"""By kind: the code of one too many, and of the null pointer."""


class DeterministicLevel(StrEnum):
    """How far results must repeat bit by bit (ACL_OPT_DETERMINISTIC); kernels always do."""

    OFF = "OFF"
    DETERMINISTIC = "DETERMINISTIC"
    STRONG = "STRONG"


class Session:
    """The state that commands work on; core.commands tells what they are.

    Attributes:
        name: 128 random bits in hexadecimal.
        tenant: Its owner.
        device: Where it runs.
        lease_s: Seconds that it lives after the last call.
        calls: Calls in progress; a session with one does not expire.
        stopped_by: The stream whose failure stopped all submission (FailureMode.STOP).
    """

    def __init__(
        self,
        name: str,
        *,
        tenant: str,
        device: Device,
        lease_s: float,
        limits: Limits,
        reclaim: Callable[[], None],
    ) -> None:
        self.name = name
        self.tenant = tenant
        self.device = device
        self.lease_s = lease_s
        self.limits = limits
        self.deterministic_level = DeterministicLevel.OFF
        self.expires_at = 0.0
        self.calls = 0
        self.stopped_by: Stream | None = None
        self.memory = SessionMemory(device, reclaim)
        self.buffers = _table(Buffer, "buffer", limits.buffers_limit)
        self.executors = _table(Executor, "executor", limits.executors_limit)
        self.streams = _table(Stream, "stream", limits.streams_limit)
        self.events = _table(Event, "event", limits.events_limit)
        self.streams.put_default(self.new_stream(0))
        self.answered = AnsweredRequests[list[Result]](
            limit=limits.request_ids_limit,
            retained_bytes_limit=limits.retained_bytes_limit,
            size_bytes=_content_bytes,
        )

    def new_stream(self, handle: int) -> Stream:
        """A stream that runs on this session's device."""
        return Stream(
            handle,
            run_kernel=self.device.run,
            queue_limit=self.limits.stream_queue_limit,
            on_stop=self._stop,
        )

    def renew(self) -> None:
        """Starts the lease anew."""
        self.expires_at = asyncio.get_running_loop().time() + self.lease_s

    async def close(self) -> None:
        """Drops queued work, waits for what is running, and returns all memory."""
        await asyncio.gather(*(stream.close() for stream in self.streams))
        self.memory.close()

    def _stop(self, stream: Stream) -> None:
        self.stopped_by = self.stopped_by or stream


def _table(item: type[Item], kind: str, limit: int) -> HandleTable[Item]:
    del item  # it only names the table's type
    limit_status, null_status = _REFUSALS[kind]
    return HandleTable[Item](kind, limit=limit, limit_status=limit_status, null_status=null_status)


def _content_bytes(results: list[Result]) -> int:
    return sum(len(result.data) for result in results if isinstance(result, Content))
