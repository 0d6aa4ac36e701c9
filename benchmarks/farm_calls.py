"""make bench-farm: the rate of two services beside that of one, on two cores; moves and recovery.

One service has a core, and two clients the other one. Two services have a core each, which each
shares with its client. So the clients' processor time counts against the second service.
"""

import argparse
import asyncio
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from rich.table import Table

from benchmarks.farm_moves import moved_ms
from benchmarks.machine import machine
from benchmarks.processes import Program, program
from benchmarks.recovery import recovery_s
from benchmarks.report import Goal, console, show_goals, show_rows, write_goals
from benchmarks.rounds import Pair, Part, at_least, measure_rounds, rows
from opserve_client.private_service import private_service

ROUNDS = 9
SECONDS = 1.0
CALLS = {"small": "small calls, 1 KiB, a second", "kernel": "kernels of 10 ms a second"}
SMALL_TARGET, KERNEL_TARGET, MOVE_TARGET_MS, RECOVERY_TARGET_S = 1.25, 1.6, 5.0, 5.0


class Rates:
    """Clients of one service and of two, and the processor time that they took.

    Attributes:
        cpu: Processor time of the clients in a call, by the name of the call, seconds.
    """

    def __init__(self, one: Sequence[Program], two: Sequence[Program]) -> None:
        self._one, self._two = one, two
        self.cpu: dict[str, float] = {}

    def compare(self, call: str) -> Mapping[str, Pair]:
        """Measures the rate of a call with two services beside that with one."""
        one, _ = _rate(self._one, call)
        two, self.cpu[call] = _rate(self._two, call)
        return {CALLS[call]: Pair(subject=two, yardstick=one)}


def main() -> None:
    """Measures, prints, and writes benchmarks/out/farm_calls.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    described = machine()  # before the load of the benchmark itself
    with _rates() as rates:
        parts: list[Part] = [partial(rates.compare, call) for call in CALLS]
        measured = measure_rounds(parts, rounds=given.rounds)
    show_rows(f"{described}; two services | one service", rows(measured))
    _show_cpu(rates.cpu)
    recovered = asyncio.run(recovery_s())
    goals = [
        at_least(SMALL_TARGET, "rate of small calls, two services", measured[CALLS["small"]]),
        at_least(KERNEL_TARGET, "rate of kernels, two services", measured[CALLS["kernel"]]),
        Goal(
            goal="a move, once for a session, ms",
            value=moved_ms(),
            target=MOVE_TARGET_MS,
            better="lower",
        ),
        Goal(
            goal="recovery of a killed service without Ray, s",
            value=max(recovered.values()),
            target=RECOVERY_TARGET_S,
            better="lower",
        ),
    ]
    show_goals(goals)
    console().print(f"written to {write_goals('farm_calls', goals)}")


@contextmanager
def _rates() -> Generator[Rates]:
    with ExitStack() as stack:
        first, second, alone = (stack.enter_context(_service(core)) for core in (0, 1, 0))

        def client(address: str, core: int) -> Program:
            return stack.enter_context(
                program("benchmarks.farm_client", address, "--core", f"{core}")
            )

        yield Rates(
            one=[client(alone, 1), client(alone, 1)],
            two=[client(first, 0), client(second, 1)],
        )


@contextmanager
def _service(core: int) -> Generator[str]:
    """A service on one core; its address."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})  # its processes inherit it
    with private_service(devices='["ascend910b"]', log_level="ERROR") as addresses:
        os.sched_setaffinity(0, all_cores)
        yield addresses.grpc


def _rate(clients: Sequence[Program], call: str) -> tuple[float, float]:
    """Returns the calls a second of all clients, and their processor time in one."""
    for client in clients:
        client.send(call=call, seconds=SECONDS)
    answers = [client.receive() for client in clients]
    calls = sum(answer["calls"] for answer in answers)
    rate = sum(answer["calls"] / answer["seconds"] for answer in answers)
    return rate, sum(answer["cpu_s"] for answer in answers) / calls


def _show_cpu(cpu: Mapping[str, float]) -> None:
    table = Table("call", "processor time of the client, ms", title="clients of two services")
    for call, seconds in cpu.items():
        table.add_row(CALLS[call], f"{seconds * 1e3:.3f}")
    console().print(table)


if __name__ == "__main__":
    main()
