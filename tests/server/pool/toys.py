"""A device whose workers run toy kernels, and calls for it."""

import asyncio
import gc
import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from opserve_kernels.registry import kernels_of
from opserve_kernels.stages import ALWAYS
from opserve_server.pool.device import CallOutcome, CallStopped, Device, KernelTiming
from opserve_server.pool.messages import Flow, KernelCall, Region
from opserve_server.pool.process import preload
from opserve_server.pool.slabs import Slab

NAMES = ("allocate", "count_units", "die", "fail", "hang", "meet", "work")
TOYS = {name: f"server.pool.toy.{name}" for name in NAMES}
UNITS = 200
ENDLESS = 1 << 40
DEADLINE_S = 300
ALONE = Flow(1, 1)


def toy_device(
    kernels: Mapping[str, str] = TOYS,
    *,
    call_time_limit_s: float = 50,
    silence_limit_s: float = 50,
    threads: int = 1,
    memory_bytes: int = 1 << 20,
    slab_bytes: int = 1 << 16,
) -> Device:
    preload(kernels_of("ascend910b").values())  # other tests share the fork server
    return Device(
        name="toy-0",
        profile="ascend910b",
        memory_bytes=memory_bytes,
        slab_bytes=slab_bytes,
        start_timeout_s=50,
        call_time_limit_s=call_time_limit_s,
        silence_limit_s=silence_limit_s,
        threads=threads,
        kernels=kernels,
    )


def toy_call(operator: str, slab: Slab, *, shares: tuple[int, ...] = (UNITS,)) -> KernelCall:
    return KernelCall(
        operator=operator,
        shares=shares,
        parameters=(7, sum(shares), 0, ALWAYS),
        tensors=(Region(slab.id, 0, UNITS), None),
        workspace=Region(slab.id, 512, 8),
    )


async def run(
    device: Device,
    call: KernelCall,
    *,
    flow: Flow = ALONE,
    used: Callable[[int], None] = lambda _: None,
) -> KernelTiming:
    """Runs a call to its end; a cancellation stops it and completes when it has ended."""
    progress = Progress(used)
    call_id = device.begin(call, flow=flow, progress=progress)
    stopped = False
    while not progress.end.done():
        try:
            await asyncio.wait([progress.end])
        except asyncio.CancelledError:
            stopped = True
            device.stop_call(call_id)
    try:
        return progress.end.result()
    except CallStopped:
        assert stopped, "nobody asked for it"
        raise asyncio.CancelledError from None


class Progress:
    """The progress of a call, whose end is a future."""

    def __init__(self, used: Callable[[int], None] = lambda _: None) -> None:
        self._used = used
        self.end: asyncio.Future[KernelTiming] = asyncio.get_running_loop().create_future()

    def used(self, used_ns: int) -> None:
        self._used(used_ns)

    def ended(self, outcome: CallOutcome) -> None:
        if isinstance(outcome, KernelTiming):
            self.end.set_result(outcome)
        else:
            self.end.set_exception(outcome)


def open_descriptors() -> Counter[str]:
    """Open files and memory of this process, but for garbage that waits to be collected.

    Threads of other tests may close theirs at any time: compare additions, not removals.
    """
    gc.collect()
    targets = Counter[str]()
    for link in list(Path("/proc/self/fd").iterdir()):
        with suppress(FileNotFoundError):  # the listing's own
            targets[str(link.readlink())] += 1
    return targets


def kill_worker(device: Device) -> None:
    assert device.worker_pid is not None
    os.kill(device.worker_pid, signal.SIGKILL)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110  # another process changes it
            await asyncio.sleep(0)
