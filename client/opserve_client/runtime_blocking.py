"""The parts of the client that differ between threads and asyncio, for threads.

runtime_async is the counterpart.
"""

import threading
import time
from collections.abc import Callable
from typing import Annotated, ParamSpec, TypeVar

OpenedT = TypeVar("OpenedT")
ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")
Lock = threading.Lock
Sleep = Callable[[float], None]
Attempt = Callable[[float], ResultT]
"""One attempt of a call; the argument is its time limit in seconds."""
sleep = time.sleep
AwaitableContext = Annotated[OpenedT, "open; the counterpart for asyncio is a coroutine as well"]


def awaitable_context(opened: OpenedT) -> OpenedT:
    """Returns the opened object, which is a context manager itself."""
    return opened


def in_thread(
    work: Callable[ParametersT, ResultT], *args: ParametersT.args, **options: ParametersT.kwargs
) -> ResultT:
    """Runs work in this thread."""
    return work(*args, **options)


class Heartbeat:
    """Calls `beat` at an interval, until it returns False or the heartbeat is stopped."""

    def __init__(self, beat: Callable[[], bool], *, interval_s: float) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(beat, interval_s), name="opserve-heartbeat", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stops the heartbeat and waits for a running beat."""
        self._stopped.set()
        self._thread.join()

    def _run(self, beat: Callable[[], bool], interval_s: float) -> None:
        while not self._stopped.wait(interval_s):
            if not beat():
                return
