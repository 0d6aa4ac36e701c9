"""What asyncio and threads do differently, for threads; runtime_async is its counterpart."""

import threading
import time
from collections.abc import Callable
from typing import Annotated, ParamSpec, TypeVar

OpenedT = TypeVar("OpenedT")
ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")
Lock = threading.Lock
Sleep = Callable[[float], None]
sleep = time.sleep
Opening = Annotated[OpenedT, "open already; the counterpart can be awaited as well as entered"]


def opening(opened: OpenedT) -> OpenedT:
    """What was opened, as it is: it can be entered with `with` already."""
    return opened


def in_thread(
    work: Callable[ParametersT, ResultT], *args: ParametersT.args, **options: ParametersT.kwargs
) -> ResultT:
    """Does work in this thread, which it holds up like any other call."""
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
        """Ends it and waits for a beat that is under way."""
        self._stopped.set()
        self._thread.join()

    def _run(self, beat: Callable[[], bool], interval_s: float) -> None:
        while not self._stopped.wait(interval_s):
            if not beat():
                return
