"""Messages between the front and a device worker: frames of integers, and nothing else.

A frame is a row of 64-bit integers in the host's byte order: its length in integers, its kind, its
fields. A packet is whole frames. A slab's descriptor travels beside the packet that attaches it.
The front coalesces frames; see Channel.
"""

import asyncio
import logging
import os
import socket
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from opserve_kernels.errors import rejection
from opserve_kernels.operator import PARAMETERS_LIMIT

WORD_BYTES = 8
PACKET_BYTES_LIMIT = 64 * 1024
_HEADER_WORDS = 2
_RUN = 0
_RUN_WORDS = 3
"""Words of a call's number and its flow."""
_NO_REGION = (-1, 0, 0)


# What each call creates is a tuple, which takes half the time of a frozen dataclass.


class Region(NamedTuple):
    """Bytes of a slab.

    Attributes:
        slab: The slab's id.
        offset: Bytes from its start.
        size_bytes: Length.
    """

    slab: int
    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCall:
    """One run of a planned call on a device.

    Attributes:
        operator: Snake-case name in the registry.
        shares: Plan.shares.
        parameters: Plan.parameters.
        tensors: One region for each tensor field of the schema, the tensor's whole buffer; None
            where null.
        workspace: Scratch memory of exactly the planned size; None where that is 0.
        cold: Whether the caches are emptied first.
    """

    operator: str
    shares: tuple[int, ...]
    parameters: tuple[int, ...]
    tensors: tuple[Region | None, ...]
    workspace: Region | None
    cold: bool = False


class Flow(NamedTuple):
    """Calls in order that share the worker with other flows: those of one tenant on a device.

    Attributes:
        number: Its number; never used for another tenant.
        weight: Its share of the worker's time relative to other flows, at least 1.
    """

    number: int
    weight: int


@dataclass(frozen=True, slots=True)
class Attach:
    """To the worker: map the slab whose descriptor is beside this packet."""

    slab: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Detach:
    """To the worker: unmap a slab."""

    slab: int


class Run(NamedTuple):
    """To the worker: run a call after those of its flow."""

    call_id: int
    flow: Flow
    call: KernelCall


@dataclass(frozen=True, slots=True)
class Cancel:
    """To the worker: stop a call at its next slice, or drop it before it begins.

    The worker answers with Cancelled, or with the outcome just before.
    """

    call_id: int


@dataclass(frozen=True, slots=True)
class Ping:
    """To the worker: send a Pong."""


@dataclass(frozen=True, slots=True)
class Ready:
    """From the worker: every kernel is loaded."""


class Done(NamedTuple):
    """From the worker: a call ran.

    Attributes:
        call_id: Id of the call.
        used_ns: Its total device time, nanoseconds, as for every call that ended.
        start_ns: Start of its kernel, nanoseconds of the monotonic clock.
        end_ns: End of its kernel.
        kernel_ns: Nanoseconds between them without pauses.
    """

    call_id: int
    used_ns: int
    start_ns: int
    end_ns: int
    kernel_ns: int


@dataclass(frozen=True, slots=True)
class Failed:
    """From the worker: a kernel raised; its log has the traceback."""

    call_id: int
    used_ns: int


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """From the worker: it lacks memory of its own for a call."""

    call_id: int
    used_ns: int


@dataclass(frozen=True, slots=True)
class TimedOut:
    """From the worker: a call exceeded its device time and was stopped."""

    call_id: int
    used_ns: int


@dataclass(frozen=True, slots=True)
class Cancelled:
    """From the worker: a call was stopped or dropped, and writes no more bytes."""

    call_id: int
    used_ns: int


@dataclass(frozen=True, slots=True)
class Pong:
    """From the worker: a sign of life."""


Ending = Done | Failed | OutOfMemory | TimedOut | Cancelled
"""The worker's one final message on each call: afterwards it writes no byte of it."""
Message = Attach | Detach | Run | Cancel | Ping | Ready | Ending | Pong
_PLAIN: dict[int, Callable[..., Message]] = dict(
    enumerate(
        (Attach, Detach, Cancel, Ping, Ready, Done, Failed, OutOfMemory, TimedOut, Cancelled, Pong),
        _RUN + 1,
    )
)
"""Messages that are a row of integers, by kind."""
_KINDS = {plain: kind for kind, plain in _PLAIN.items()}


class FrameError(ValueError):
    """A message that does not fit a frame, or an invalid frame."""


def encode(message: Message, operators: Sequence[str]) -> bytes:
    """Encodes a message as a frame.

    Args:
        message: The message.
        operators: Names of the operators, in the order common to both sides.

    Raises:
        FrameError: The message does not fit a packet, or a number does not fit 64 bits.
    """
    fields = _fields(message, operators)
    try:
        frame = array("q", [_HEADER_WORDS + len(fields) - 1, *fields]).tobytes()
    except OverflowError as error:
        raise FrameError("a frame has a number beyond 64 bits") from error
    if len(frame) > PACKET_BYTES_LIMIT:
        raise FrameError(f"a frame has {len(frame)} bytes, above {PACKET_BYTES_LIMIT}")
    return frame


def decode(packet: bytes, operators: Sequence[str]) -> Iterator[Message]:
    """The messages of a packet.

    Raises:
        FrameError: The packet is not whole frames of known kinds.
    """
    if len(packet) % WORD_BYTES:
        raise FrameError(f"a packet has {len(packet)} bytes, no multiple of {WORD_BYTES}")
    words = memoryview(packet).cast("q").tolist()
    start = 0
    while start < len(words):
        length = words[start]
        if not _HEADER_WORDS <= length <= len(words) - start:
            raise FrameError(f"a frame claims {length} words, {len(words) - start} are there")
        fields = words[start + _HEADER_WORDS : start + length]
        yield _message(words[start + 1], fields, operators)
        start += length


def _fields(message: Message, operators: Sequence[str]) -> list[int]:
    """The kind and the fields."""
    if isinstance(message, Run):
        flow = message.flow
        return [
            *(_RUN, message.call_id, flow.number, flow.weight),
            *_call_fields(message.call, operators),
        ]
    return [_KINDS[type(message)], *(getattr(message, name) for name in message.__match_args__)]


def _call_fields(call: KernelCall, operators: Sequence[str]) -> list[int]:
    if len(call.parameters) > PARAMETERS_LIMIT:
        raise FrameError(f"a call has {len(call.parameters)} parameters, above {PARAMETERS_LIMIT}")
    if call.operator not in operators:
        raise FrameError(rejection("operator", given=call.operator, allowed=", ".join(operators)))
    fields = [operators.index(call.operator), int(call.cold)]
    fields += len(call.shares), *call.shares, len(call.tensors)
    for region in (*call.tensors, call.workspace):
        at = (region.slab, region.offset, region.size_bytes) if region else _NO_REGION
        fields += at
    fields += call.parameters
    return fields


def _message(kind: int, values: list[int], operators: Sequence[str]) -> Message:
    if kind == _RUN and len(values) >= _RUN_WORDS:
        call_id, number, weight, *call = values
        return Run(call_id, Flow(number, weight), _call(call, operators))
    try:
        return _PLAIN[kind](*values)
    except (KeyError, TypeError) as error:
        raise FrameError(f"a frame of kind {kind} has {len(values)} fields") from error


def _call(values: list[int], operators: Sequence[str]) -> KernelCall:
    try:
        operator, cold, count, *rest = values
        shares, tensors, rest = tuple(rest[:count]), rest[count], rest[count + 1 :]
        regions = [_region(rest[3 * i : 3 * i + 3]) for i in range(tensors + 1)]
        return KernelCall(
            operator=operators[operator],
            shares=shares,
            parameters=tuple(rest[3 * (tensors + 1) :]),
            tensors=tuple(regions[:-1]),
            workspace=regions[-1],
            cold=bool(cold),
        )
    except (ValueError, IndexError) as error:
        raise FrameError("a run frame is cut short") from error


def _region(fields: list[int]) -> Region | None:
    slab, offset, size_bytes = fields
    return None if slab == _NO_REGION[0] else Region(slab, offset, size_bytes)


QUEUED_PACKETS_LIMIT = 4096

log = logging.getLogger(__name__)


class ChannelOverflowError(OSError):
    """The worker does not read, and too many packets wait for it."""


class Channel:
    """A sequenced-packet socket on the event loop.

    Args:
        end: The connected socket; the channel owns it.
        operators: Names of the operators, in the order common to both sides.
        on_message: Called with each message.
        on_close: Called once when the other end is closed.
    """

    def __init__(
        self,
        end: socket.socket,
        *,
        operators: Sequence[str],
        on_message: Callable[[Message], None],
        on_close: Callable[[], None],
    ) -> None:
        self._end = end
        self._operators = operators
        self._on_message = on_message
        self._on_close = on_close
        self._packets: deque[tuple[bytearray, list[int]]] = deque()
        self._flush_scheduled = False
        self._closed = False
        end.setblocking(False)  # noqa: FBT003  # the socket module's own signature
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(end, self.drain)

    def send(self, frame: bytes, *, fd: int | None = None) -> None:
        """Queues a frame; a copy of a descriptor is sent beside it, in order.

        Raises:
            ChannelOverflowError: Too many packets wait already.
            OSError: The descriptor cannot be copied.
        """
        if self._closed:
            return
        if not self._flush_scheduled:
            self._flush_scheduled = True
            # At the end of the iteration, after all frames of it.
            self._loop.call_soon(self._flush)
            # But for the first: the worker wakes up while this process goes on.
            if fd is None and self._send_at_once(frame):
                return
        last = self._packets[-1] if self._packets else None
        # Frames of one iteration of the loop leave in one packet. A descriptor needs a packet of
        # its own, since the worker takes it for the frame beside it.
        if last and not last[1] and fd is None and len(last[0]) + len(frame) <= PACKET_BYTES_LIMIT:
            last[0].extend(frame)
        elif len(self._packets) >= QUEUED_PACKETS_LIMIT:
            raise ChannelOverflowError(f"{QUEUED_PACKETS_LIMIT} packets wait for the worker")
        else:
            # A copy: the slab may be closed before the packet is sent.
            self._packets.append((bytearray(frame), [] if fd is None else [os.dup(fd)]))

    def _send_at_once(self, frame: bytes) -> bool:
        """Whether a frame was sent; one that cannot be is left to `_flush`."""
        with suppress(OSError):
            self._end.send(frame)
            return True
        return False

    def drain(self) -> None:
        """Handles all messages that the worker has sent so far."""
        while not self._closed:
            try:
                packet = self._end.recv(PACKET_BYTES_LIMIT)
            except BlockingIOError:
                return
            except ConnectionResetError:
                # The worker died before it read everything; its own messages follow this error.
                continue
            self._take_in(packet)

    def close(self) -> None:
        """Closes the socket; on_close is not called for it."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._end)
            self._loop.remove_writer(self._end)
            self._end.close()
            while self._packets:
                self._drop_first()

    def _take_in(self, packet: bytes) -> None:
        if not packet:
            self._lost()
            return
        try:
            for message in decode(packet, self._operators):
                self._on_message(message)
        except FrameError:
            log.exception("a worker sent an invalid message")
            self._lost()

    def _drop_first(self) -> None:
        _, fds = self._packets.popleft()
        for fd in fds:
            os.close(fd)

    def _flush(self) -> None:
        if self._closed:
            return
        self._loop.remove_writer(self._end)
        self._flush_scheduled = False
        try:
            while self._packets:
                packet, fds = self._packets[0]
                if fds:
                    socket.send_fds(self._end, [packet], fds)
                else:
                    self._end.send(packet)
                self._drop_first()
        # The worker reads only between slices. The rest waits in order; the queue is bounded in
        # send.
        except BlockingIOError:
            self._flush_scheduled = True
            self._loop.add_writer(self._end, self._flush)
        except OSError:
            self.drain()  # messages from before its death count
            self._lost()

    def _lost(self) -> None:
        if not self._closed:
            self.close()
            self._on_close()
