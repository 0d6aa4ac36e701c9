"""session.benchmark: plan and upload a call once, run it repeatedly, return its kernel times."""

from collections.abc import Sequence
from contextlib import aclosing
from math import ceil
from typing import Any

from opserve.v1.command_service_pb2 import Command, CommandResult
from opserve.v1.memory_service_pb2 import WriteRequest
from opserve.v1.operator_service_pb2 import ExecuteRequest, SetRepeatableRequest
from opserve.v1.stream_service_pb2 import (
    CreateStreamRequest,
    DestroyStreamRequest,
    SynchronizeStreamRequest,
)
from opserve_client._async.session_calls import AsyncSessionCalls
from opserve_client.benchmark import Benchmark
from opserve_client.errors import OpserveError
from opserve_client.operators import OperatorCall, check_owners, plain
from opserve_client.rule_warnings import warn_of_results
from opserve_client.run_batches import DeviceObjects, Prepared, first_error, planned_call, prepare
from opserve_client.wire import methods

RUNS_PER_BATCH = 128
"""Half of the entries that a service keeps of a stream by default: each batch's times are read
before the next one can displace them."""
_MS_PER_S = 1e3


async def benchmark(
    calls: AsyncSessionCalls,
    call: OperatorCall[Any],
    *,
    warmup: int,
    repeats: int,
    min_repeat_ms: float,
    flush_cache: bool,
) -> Benchmark:
    """Measures on a new stream, and frees all objects that it created, also after a failure."""
    check_owners(call, calls)
    prepared, made = prepare(plain(call)), DeviceObjects()
    command = Command(create_stream=CreateStreamRequest(session=calls.session))
    stream = (await calls.make(methods.CREATE_STREAM, command)).stream
    try:
        execute = await _placed(calls, prepared, made, stream)
        execute.cold_caches = flush_cache
        runs = _Runs(calls, execute)
        await runs.run(warmup)
        samples = [await runs.sample(min_repeat_ms) for _ in range(repeats)]
    except BaseException as error:
        try:
            await _free(calls, made, stream)
        except OpserveError as second:
            error.add_note(f"Objects of the benchmark are freed with the session: {second}")
        raise
    await _free(calls, made, stream)
    return Benchmark(
        samples_ms=tuple(sum(times) / len(times) for times in samples),
        runs=tuple(len(times) for times in samples),
    )


async def _placed(
    calls: AsyncSessionCalls, prepared: Prepared, made: DeviceObjects, stream: int
) -> ExecuteRequest:
    """Plans the call and fills its tensors; returns the request that runs it."""
    commands, results = await calls.submit(lambda last: planned_call(prepared, last))
    made.update(commands, results)
    warn_of_results(results)
    _check(results)
    executor = results[0].get_workspace_size.executor
    for part, result in zip(prepared.parts, results[2::2], strict=True):
        if part.data:
            await calls.write(WriteRequest(buffer=result.allocate.buffer), part.data)
    repeatable = SetRepeatableRequest(executor=executor)
    _check(await calls.send([Command(set_repeatable=repeatable)]))
    return ExecuteRequest(executor=executor, workspace=results[1].allocate.buffer, stream=stream)


class _Runs:
    """Runs of one call on a stream without other work."""

    def __init__(self, calls: AsyncSessionCalls, execute: ExecuteRequest) -> None:
        self._calls = calls
        self._execute = execute
        self._last = 0
        self._fastest_ms = 0.0

    async def sample(self, min_repeat_ms: float) -> list[float]:
        """Runs the call until the kernel times add up to min_repeat_ms; returns them in ms."""
        times = await self.run(1 if min_repeat_ms <= 0 else self._count(min_repeat_ms))
        while (missing_ms := min_repeat_ms - sum(times)) > 0:
            times += await self.run(self._count(missing_ms))
        return times

    async def run(self, count: int) -> list[float]:
        """Runs the call `count` times; returns the kernel times that the service kept, in ms."""
        times: list[float] = []
        for start in range(0, count, RUNS_PER_BATCH):
            times += await self._batch(min(RUNS_PER_BATCH, count - start))
        self._fastest_ms = min(times)
        return times

    def _count(self, lasting_ms: float) -> int:
        return max(1, ceil(lasting_ms / max(self._fastest_ms, lasting_ms / RUNS_PER_BATCH)))

    async def _batch(self, count: int) -> list[float]:
        stream = self._execute.stream
        commands = [Command(execute=self._execute)] * count
        waiting = SynchronizeStreamRequest(stream=stream)
        _check(await self._calls.send([*commands, Command(synchronize_stream=waiting)]))
        times: list[float] = []
        after, self._last = self._last, self._last + count
        async with aclosing(self._calls.watch(stream, after=after)) as watching:
            async for entry in watching:
                times.append(entry.kernel_s * _MS_PER_S)
                if entry.sequence >= self._last:
                    break
        return times


async def _free(calls: AsyncSessionCalls, made: DeviceObjects, stream: int) -> None:
    destroying = Command(destroy_stream=DestroyStreamRequest(stream=stream))
    _check(await calls.send([*made.cleanup(), destroying]))


def _check(results: Sequence[CommandResult]) -> None:
    error = first_error(results)
    if error:
        raise error
