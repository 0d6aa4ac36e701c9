"""SIGTERM ends a service whose event loop is stuck, with all of its processes."""

import asyncio
import signal
from pathlib import Path

import pytest

from system import stuck_front
from system.drills import own_process, until, workers_of

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(180)]
DRAIN_S = 0.5


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("how", "number"),
    [*((how, signal.SIGTERM) for how in stuck_front.STUCK), ("in Python", signal.SIGINT)],
)
async def test_a_signal_ends_a_service_whose_loop_is_stuck(
    how: str, number: signal.Signals
) -> None:
    stuck = own_process(stuck_front.__file__, how, drain_timeout_s=f"{DRAIN_S}")
    async with stuck as (process, _):
        workers = workers_of(process)
        assert workers
        process.send_signal(number)
        assert await process.wait() == -signal.SIGKILL
        assert process.stderr is not None
        log = (await process.stderr.read()).decode()
        assert f"killed {DRAIN_S + stuck_front.KILL_AFTER_S:g} s after a signal to stop" in log
        assert stuck_front.STUCK[how].__name__ in log, "it says where"

        async def are_gone() -> bool:
            await asyncio.sleep(0)
            return not any(map(runs, workers))

        await until(are_gone)
