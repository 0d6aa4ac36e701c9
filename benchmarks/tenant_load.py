"""The load of an ordinary tenant in a process: checked and timed calls at a fixed rate."""

import asyncio
import json
import random
import secrets
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.long_calls import long_call, queue_calls
from opserve_client import (
    AsyncClient,
    AsyncSession,
    AsyncStream,
    ConvolutionBackward,
    Im2colBackward,
    OpserveError,
)
from opserve_server.allocator import freeze_loaded_objects

SMALL, WHOLE = "small call", "whole call"
RATES_PER_S = {SMALL: 6.0, WHOLE: 1.0}
"""Calls per second of one tenant: eight tenants leave most of a core idle."""
LONG_AT_ONCE = 8
"""Long calls in the queue of a tenant that keeps the device busy."""
EDGE, CHANNELS = 32, 32
"""Sizes of an image whose tensors of 128 KiB are transferred by streams."""
LEASE_S = 600.0
MARK_VALUES = 4
"""float32 values of a tenant's mark: 16 bytes that identify the tenant."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Results of a tenant's calls.

    Attributes:
        milliseconds: Time from the scheduled start of a call to its end, by kind.
        errors: Rejected calls and wrong answers.
    """

    milliseconds: dict[str, list[float]] = field(
        default_factory=lambda: {k: [] for k in RATES_PER_S}
    )
    errors: list[str] = field(default_factory=list[str])


class TenantLoad:
    """Calls in one session, with data that contain the tenant's mark.

    Attributes:
        secrets: Secrets of the tenant as hexadecimal bytes, by description.
    """

    def __init__(self, session: AsyncSession, mark: "NDArray[np.float32]") -> None:
        self._session = session
        self._whole = convolution(mark)
        self._expected: list[bytes] = []
        self._plan: Im2colBackward | None = None
        self._long: tuple[int, AsyncStream] | None = None
        self.secrets = {
            "the name of a session": session.name.encode().hex(),
            "bytes of a tenant": mark.tobytes().hex(),
        }

    async def work(
        self, *, seconds: float, seed: int, times: float = 1.0, long_per_s: float = 0.0
    ) -> LoadResult:
        """Calls at `times` the rates, from a random start of each kind.

        Beside them it fills a queue with long calls, long_per_s times a second if the queue runs
        empty in time.
        """
        worked, chance = LoadResult(), random.Random(seed)  # noqa: S311  # no secret
        calls = {SMALL: self.small_call, WHOLE: self.whole_call}
        begin_s = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as calling:
            calling.create_task(self._long_calls(seconds=seconds, per_s=long_per_s))
            for kind, base_rate in RATES_PER_S.items():
                rate = base_rate * times
                offset_s = chance.random() / rate
                for number in range(round(seconds * rate)):
                    due_s = begin_s + offset_s + number / rate
                    calling.create_task(_call_at(due_s, kind, calls[kind], worked))
        return worked

    async def _long_calls(self, *, seconds: float, per_s: float) -> None:
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        for number in range(round(seconds * per_s)):
            await asyncio.sleep(begin_s + number / per_s - loop.time())
            if loop.time() > begin_s + seconds:
                return
            if self._long is None:
                self._long = (await long_call(self._session), await self._session.create_stream())
            executor, stream = self._long
            await queue_calls(self._session, executor, stream=stream.handle, count=LONG_AT_ONCE)
            await stream.synchronize()

    async def small_call(self) -> None:
        """Plans a call."""
        if self._plan is None:
            columns = await self._session.empty((1, EDGE * EDGE), "float32", format="ND")
            self._plan = Im2colBackward(
                grad_output=columns,
                input_size=[EDGE, EDGE],
                kernel_size=[1, 1],
                dilation=[1, 1],
                padding=[0, 0],
                stride=[1, 1],
                out=await self._session.empty((1, EDGE, EDGE), "float32", format="ND"),
            )
        plan = await self._session.get_workspace_size(self._plan)
        await plan.executor.destroy()

    async def whole_call(self) -> None:
        """Runs a call on arrays, and checks that its results are those of the first run."""
        found = await self._session.run(self._whole)
        values = [array.tobytes() for array in found if array is not None]
        self._expected = self._expected or values
        assert values == self._expected, "a wrong answer"


async def _call_at(
    due_s: float, kind: str, call: Callable[[], Awaitable[None]], worked: LoadResult
) -> None:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(due_s - loop.time())
    try:
        await call()
    except (OpserveError, AssertionError) as error:
        worked.errors.append(f"{kind}: {error!r}")
    worked.milliseconds[kind].append((loop.time() - due_s) * 1e3)


def convolution(mark: "NDArray[np.float32]") -> ConvolutionBackward:
    """Returns a 3x3 convolution over an image of marks, which takes some milliseconds."""
    image = np.resize(mark, (1, CHANNELS, EDGE, EDGE))
    return ConvolutionBackward(
        grad_output=image,
        input=image,
        weight=np.resize(mark, (CHANNELS, CHANNELS, 3, 3)),
        bias_sizes=[CHANNELS],
        stride=[1, 1],
        padding=[1, 1],
        dilation=[1, 1],
        transposed=False,
        output_padding=[0, 0],
        groups=1,
        output_mask=[True, True, True],
        cube_math_type=0,
    )


def new_mark() -> "NDArray[np.float32]":
    """Returns random values that identify a tenant."""
    seed = secrets.randbits(64)
    return np.random.default_rng(seed).standard_normal(MARK_VALUES).astype(np.float32)


async def serve(address: str) -> None:
    """Writes the secrets, and then works once for each line of standard input."""
    async with AsyncClient(address) as client, client.open_session(lease_s=LEASE_S) as session:
        load = TenantLoad(session, new_mark())
        await load.small_call()
        await load.whole_call()
        freeze_loaded_objects()  # garbage collections here would count as latency of the service
        write_line(load.secrets)
        while line := await asyncio.to_thread(sys.stdin.readline):
            write_line(asdict(await load.work(**json.loads(line))))


def write_line(answer: object) -> None:
    """Writes a line of JSON for the parent process."""
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
