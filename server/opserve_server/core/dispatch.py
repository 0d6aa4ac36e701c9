"""Dispatch: whose call a device gets next, and how many it has at once."""

import asyncio
from functools import partial
from typing import Protocol

from opserve_server.core.devices import Device
from opserve_server.core.work import Entry, KernelRun
from opserve_server.pool.device import KernelTiming

CALLS_AT_DEVICE = 2
"""Calls: one runs, and one follows it without a gap; the order of all others is still open."""


class CallStopped(Exception):
    """The device stopped a call before its end, as it was told to, or never began it."""


class Source(Protocol):
    """A stream as the dispatcher sees it."""

    @property
    def handle(self) -> int:
        """Its handle."""
        ...

    @property
    def has_call(self) -> bool:
        """Whether its next work is a call that may go to the device now."""
        ...

    def take_call(self) -> tuple[Entry, KernelRun]:
        """Its next call, which goes to the device."""
        ...

    def end_call(self, entry: Entry, outcome: KernelTiming | Exception) -> None:
        """A call that went to the device is over."""
        ...


class RoundRobin:
    """Whose turn is next: of those that have a call, the one that has waited longest."""

    def __init__(self) -> None:
        self._waiting: dict[Source, None] = {}

    def add(self, source: Source) -> None:
        """A source has a call; it waits behind all others, or where it waits already."""
        self._waiting.setdefault(source)

    def discard(self, source: Source) -> None:
        """A source has none any more."""
        self._waiting.pop(source, None)

    def take(self) -> Source | None:
        """The source whose turn it is, which waits no more; None where none does."""
        source = next(iter(self._waiting), None)
        if source is not None:
            del self._waiting[source]
        return source


class Dispatcher:
    """Gives a device calls of streams, few at a time and each stream's in order.

    Args:
        device: Runs the calls in the order they come.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._turns = RoundRobin()
        self._tasks: dict[Entry, asyncio.Task[KernelTiming]] = {}

    def offer(self, source: Source) -> None:
        """A stream has a call."""
        self._turns.add(source)
        self._fill()

    def withdraw(self, source: Source) -> None:
        """A stream has none any more."""
        self._turns.discard(source)

    def stop(self, entry: Entry) -> None:
        """Asks the device, once, to stop a call; its stream is told when that is over."""
        self._tasks[entry].cancel()

    def _fill(self) -> None:
        while len(self._tasks) < CALLS_AT_DEVICE and (source := self._turns.take()) is not None:
            entry, run = source.take_call()
            if source.has_call:
                self._turns.add(source)
            task = asyncio.create_task(
                self._device.run(run.call), name=f"stream {source.handle}", context=entry.context
            )
            self._tasks[entry] = task
            task.add_done_callback(partial(self._end, source, entry))

    def _end(self, source: Source, entry: Entry, task: asyncio.Task[KernelTiming]) -> None:
        del self._tasks[entry]
        if task.cancelled() and entry.stopped_by is None:
            return  # nobody here asked for it: the event loop ends, and all its tasks with it
        source.end_call(entry, _outcome(task))
        self._fill()


def _outcome(task: asyncio.Task[KernelTiming]) -> KernelTiming | Exception:
    if task.cancelled():
        return CallStopped()
    error = task.exception()
    if error is None:
        return task.result()
    assert isinstance(error, Exception), "what ends the process ends its event loop"
    return error
