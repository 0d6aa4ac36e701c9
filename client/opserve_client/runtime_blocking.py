"""What asyncio and threads do differently, for threads; runtime_async is its counterpart."""

import threading
import time
from collections.abc import Callable
from typing import Annotated, ParamSpec, TypeVar

import grpc
import httpx2

from opserve_client.access import Access
from opserve_client.wire.channel_options import CHANNEL_OPTIONS, READING_OPTIONS, Options

OpenedT = TypeVar("OpenedT")
ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")
Lock = threading.Lock
Channel = grpc.Channel
HttpClient = httpx2.Client
Sleep = Callable[[float], None]
sleep = time.sleep
Opening = Annotated[OpenedT, "open already; the counterpart can be awaited as well as entered"]


def open_channels(target: str, access: Access | None) -> tuple[grpc.Channel, grpc.Channel]:
    """A gRPC channel for calls, and one for bytes that are read; they share a connection.

    They connect by themselves when they are used.
    """
    return _channel(target, access, CHANNEL_OPTIONS), _channel(target, access, READING_OPTIONS)


def _channel(target: str, access: Access | None, options: Options) -> grpc.Channel:
    if access is None or not access.secure:
        return grpc.insecure_channel(target, options=options)
    return grpc.secure_channel(target, access.credentials, options=options)


def open_http(access: Access) -> HttpClient:
    """An HTTP client that says who calls."""
    verify = access.context if access.secure else False
    return HttpClient(base_url=access.target, headers=access.headers, verify=verify)


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
