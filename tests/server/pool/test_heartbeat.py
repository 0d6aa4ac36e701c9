"""Signs of life, in virtual time."""

import asyncio
from collections.abc import Iterator

import pytest

from opserve_server.pool.device import Heartbeat
from simulation.virtual_time import VirtualTimeLoop

LIMIT_S = 10.0


class Watched:
    """A worker that answers or does not, and when it was found silent."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.answers = True
        self.silent_s: list[float] = []
        self.heartbeat = Heartbeat(
            silence_limit_s=LIMIT_S, ping=self.answer, on_silence=self.on_silence
        )

    def answer(self) -> None:
        if self.answers:
            self.loop.call_soon(self.be_heard)

    def be_heard(self) -> None:
        self.heartbeat.note_reply()

    def on_silence(self) -> None:
        self.silent_s.append(self.loop.time())


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        yield runner


def test_a_worker_that_answers_is_never_silent(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        worker = Watched()
        for _ in range(1000):
            await asyncio.sleep(0.37)
            assert worker.heartbeat.steady
        assert not worker.silent_s

    runner.run(scenario())


def test_a_silent_worker_is_reported_once_and_unsteady_before_the_limit(
    runner: asyncio.Runner,
) -> None:
    async def scenario() -> None:
        worker = Watched()
        await asyncio.sleep(95.5)
        worker.answers = False
        await asyncio.sleep(2)
        assert worker.heartbeat.steady, "a unit may be long"
        await asyncio.sleep(2)
        assert not worker.heartbeat.steady
        assert not worker.silent_s
        await asyncio.sleep(100)
        assert worker.silent_s == [pytest.approx(96 + LIMIT_S)]

    runner.run(scenario())


def test_a_worker_that_is_heard_again_is_steady(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        worker = Watched()
        worker.answers = False
        await asyncio.sleep(LIMIT_S - 0.5)
        assert not worker.heartbeat.steady
        worker.answers = True
        await asyncio.sleep(1)
        assert worker.heartbeat.steady
        assert not worker.silent_s

    runner.run(scenario())


def test_a_front_that_was_suspended_takes_no_worker_for_silent(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        worker = Watched()
        loop = worker.loop
        assert isinstance(loop, VirtualTimeLoop)
        for _ in range(20):
            loop.advance(100 * LIMIT_S)
            await asyncio.sleep(0.1)
        assert worker.heartbeat.steady
        assert not worker.silent_s

    runner.run(scenario())


def test_no_heartbeat_is_checked_after_a_stop(runner: asyncio.Runner) -> None:
    async def scenario() -> None:
        worker = Watched()
        worker.answers = False
        worker.heartbeat.stop()
        await asyncio.sleep(100 * LIMIT_S)
        assert not worker.silent_s

    runner.run(scenario())
