"""Races: a cancel and the end of its call, a free and an execute."""

import asyncio
import random

import pytest

from opserve_client import AsyncClient, ExecutionFailed, OpserveError
from opserve_client.private_service import Addresses
from system.drills import CHANNELS, EDGE, EXACT, long_work

pytestmark = pytest.mark.system
ROUNDS = 40
ABORTED = 107023
GONE = 107017


@pytest.mark.parametrize("seed", [1, 2])
async def test_an_abort_that_races_the_end_of_its_call_ends_it_once(
    service: Addresses, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311  # no secret
    async with AsyncClient(service.grpc) as client, client.open_session() as session:
        work = await long_work(session)
        for _ in range(ROUNDS):
            await work.queue(session, 1)
            for _ in range(chance.randrange(6)):
                await session.default_stream.query()
            await session.default_stream.abort()
            assert await session.default_stream.query()
            try:
                await session.default_stream.synchronize()
            except ExecutionFailed as error:
                assert error.code == ABORTED, error  # noqa: PT017  # it may also have been done
            await session.default_stream.synchronize()  # it was reported once
        await work.queue(session, 1)
        await session.default_stream.synchronize()
        assert await work.out() == EXACT


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_a_free_that_races_an_execute_releases_no_memory_that_is_written(
    service: Addresses, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311  # no secret
    size = CHANNELS * EDGE * EDGE * 4
    async with AsyncClient(service.grpc) as client, client.open_session() as session:
        for _ in range(ROUNDS // 4):
            work = await long_work(session)
            queued, freed = await asyncio.gather(
                *chance.sample((work.queue(session, 3), work.free()), 2), return_exceptions=True
            )
            for outcome in (queued, freed):
                assert outcome is None or (
                    isinstance(outcome, OpserveError) and outcome.code == GONE
                ), outcome
            others = await session.allocate(size)
            await others.fill(9)
            await session.default_stream.synchronize()
            assert set(await others.read()) == {9}, "a call wrote into memory of another"
            await others.free()
