"""SIGTERM at a service that has work: what both APIs tell, and what is finished."""

import asyncio
import signal
from typing import Any

import grpc
import httpx2
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from opserve.v1.session_service_pb2 import OpenSessionRequest
from opserve.v1.session_service_pb2_grpc import SessionServiceStub
from opserve_client import AsyncClient, OpserveError
from system.drills import EXACT, FULL_QUEUE, Process, long_work, own_process, tell, until

pytestmark = [pytest.mark.system, pytest.mark.slow]
CALLS = 200  # seconds of work
HARD_STOP_S = 1.5
SLACK_S = 15  # a loaded machine's, to end processes


async def line_of(process: Process, words: bytes) -> None:
    assert process.stderr is not None
    async with asyncio.timeout(300):
        while words not in (line := await process.stderr.readline()):
            assert line, "the log has ended"


async def refusal(client: AsyncClient) -> int | str:
    with pytest.raises(OpserveError) as refused:
        await client.open_session()
    return refused.value.code


async def test_a_draining_service_finishes_work_and_returns_others_a_time_to_retry() -> None:
    async with (
        own_process(drain_timeout_s="40") as (process, addresses),
        AsyncClient(addresses.grpc) as client,
        AsyncClient(addresses.rest) as over_rest,
        httpx2.AsyncClient(base_url=addresses.rest) as bare,
        grpc.aio.insecure_channel(addresses.grpc) as channel,
    ):
        session = await client.open_session()
        work = await long_work(session)
        await work.queue_at_once(session, CALLS)
        process.send_signal(signal.SIGTERM)

        health: Any = HealthStub(channel)  # without types

        async def not_serving() -> bool:
            checked = await health.Check(HealthCheckRequest())
            ready = await bare.get("/readyz")
            return (checked.status, ready.status_code) == (HealthCheckResponse.NOT_SERVING, 503)

        tell("SIGTERM: NOT_SERVING on both APIs after", await until(not_serving))
        assert not await session.default_stream.query(), "the work is under way"
        assert {await refusal(client), await refusal(over_rest)} == {507901}
        answer = await bare.post("/v1/sessions")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await SessionServiceStub(channel).OpenSession(OpenSessionRequest())
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert retry_delay_s(refused.value) == 1
        with pytest.raises(OpserveError, match="507901"):
            await work.queue(session, 1)
        await session.default_stream.synchronize()
        assert await work.out() == EXACT
        await session.close()
        tell("SIGTERM: process ended after its last session", await seconds_to_end(process, 0))


async def seconds_to_end(process: Process, status: int) -> float:
    begun = asyncio.get_running_loop().time()
    async with asyncio.timeout(SLACK_S):
        assert await process.wait() == status
    return asyncio.get_running_loop().time() - begun


def retry_delay_s(error: grpc.aio.AioRpcError) -> int:
    metadata: dict[str, Any] = dict(error.trailing_metadata())
    status, retry = Status.FromString(metadata["grpc-status-details-bin"]), RetryInfo()
    assert any(detail.Unpack(retry) for detail in status.details)
    return int(retry.retry_delay.seconds)


async def test_a_drain_ends_at_its_limit_despite_running_work() -> None:
    async with (
        own_process(drain_timeout_s=str(HARD_STOP_S)) as (process, addresses),
        AsyncClient(addresses.grpc) as client,
    ):
        session = await client.open_session()
        await (await long_work(session)).queue_much(session)
        begun = asyncio.get_running_loop().time()
        process.send_signal(signal.SIGTERM)
        await line_of(process, b"ending work that still runs")
        gave_up_s = asyncio.get_running_loop().time() - begun
        assert gave_up_s >= HARD_STOP_S
        ended_s = gave_up_s + await seconds_to_end(process, 0)
        tell(f"SIGTERM with endless work and drain_timeout_s {HARD_STOP_S}: ended after", ended_s)


async def waits_for_work(client: AsyncClient) -> asyncio.Future[None]:
    """A call that waits for longer than any drain here."""
    session = await client.open_session()
    await (await long_work(session)).queue_at_once(session, FULL_QUEUE)
    return asyncio.ensure_future(session.default_stream.synchronize())


async def test_the_end_of_a_drain_ends_waiting_calls_with_a_time_to_retry() -> None:
    async with (
        own_process(drain_timeout_s=str(HARD_STOP_S)) as (process, addresses),
        AsyncClient(addresses.grpc) as client,
        AsyncClient(addresses.rest) as over_rest,
    ):
        waiting = [await waits_for_work(one) for one in (client, over_rest)]
        process.send_signal(signal.SIGTERM)
        ended: list[object] = list(await asyncio.gather(*waiting, return_exceptions=True))
        codes = [error.code for error in ended if isinstance(error, OpserveError)]
        assert codes == [507901, 507901], ended
        await seconds_to_end(process, 0)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_stops_at_once(second: signal.Signals) -> None:
    async with (
        own_process(drain_timeout_s="600") as (process, addresses),
        AsyncClient(addresses.grpc) as client,
    ):
        session = await client.open_session()
        await (await long_work(session)).queue_much(session)
        process.send_signal(signal.SIGTERM)
        await line_of(process, b"drains")
        process.send_signal(second)
        tell("second signal: ended after", await seconds_to_end(process, 1))


async def test_a_second_signal_ends_waiting_calls_with_a_time_to_retry() -> None:
    async with (
        own_process(drain_timeout_s="600") as (process, addresses),
        AsyncClient(addresses.grpc) as client,
        AsyncClient(addresses.rest) as over_rest,
    ):
        waiting = [await waits_for_work(one) for one in (client, over_rest)]
        process.send_signal(signal.SIGTERM)
        await line_of(process, b"drains")
        process.send_signal(signal.SIGTERM)
        ended: list[object] = list(await asyncio.gather(*waiting, return_exceptions=True))
        codes = [error.code for error in ended if isinstance(error, OpserveError)]
        assert codes == [507901, 507901], ended
        await seconds_to_end(process, 1)
