"""make bench-farm: the rate of two services beside that of one, on two cores, and recovery.

One service has a core, and two clients the other one. Two services have a core each, which each
shares with its client. So the clients' processor time counts against the second service.
"""

import argparse
import asyncio
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median

from rich.table import Table

from benchmarks.machine import machine
from benchmarks.measure import seconds_each
from benchmarks.processes import Program, program
from benchmarks.recovery import recovery_s
from benchmarks.report import Goal, console, show_goals, show_rows, write_goals
from benchmarks.rounds import Pair, Part, Rounds, at_least, at_most_beyond, measure_rounds, rows
from benchmarks.service_with_keys import new_store
from opserve_client import Client
from opserve_client.private_service import private_service
from server.store.postgresql import postgresql

ROUNDS = 9
SECONDS = 1.0
CALLS = {"small": "small calls, 1 KiB, a second", "kernel": "kernels of 10 ms a second"}
MOVED = "OpenSession and CloseSession, p50 ms"
SESSIONS = 50
SMALL_TARGET, KERNEL_TARGET, MOVED_TARGET_MS, RECOVERY_TARGET_S = 1.25, 1.6, 5.0, 5.0


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
    """Measures, prints, and writes benchmarks/out/farm.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    described = machine()  # before the load of the benchmark itself
    with _rates() as rates:
        parts: list[Part] = [partial(rates.compare, call) for call in CALLS]
        measured = measure_rounds(parts, rounds=given.rounds)
    show_rows(f"{described}; two services | one service", rows(measured))
    _show_cpu(rates.cpu)
    moved = _moved_sessions(rounds=given.rounds)
    show_rows(f"{described}; a session opened after a move | at once", rows(moved))
    recovered = asyncio.run(recovery_s())
    goals = [
        at_least(SMALL_TARGET, "rate of small calls, two services", measured[CALLS["small"]]),
        at_least(KERNEL_TARGET, "rate of kernels, two services", measured[CALLS["kernel"]]),
        at_most_beyond(MOVED_TARGET_MS, "a move of a new session, ms", moved[MOVED]),
        Goal(
            goal="recovery of a killed service without Ray, s",
            value=max(recovered.values()),
            target=RECOVERY_TARGET_S,
            better="lower",
        ),
    ]
    show_goals(goals)
    console().print(f"written to {write_goals('farm', goals)}")


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


def _moved_sessions(*, rounds: int) -> Rounds:
    """Sessions opened by a full service, which moves them, and by the one with room."""
    with postgresql() as server, ExitStack() as stack:
        url = server.url("test")
        asyncio.run(new_store(url, ()))
        settings = {"store_url": url, "device_sessions_limit": "2", "farm_lease_s": "1"}
        full, other = (
            stack.enter_context(
                Client(
                    stack.enter_context(
                        private_service(devices='["ascend910b"]', farm_name=name, **settings)
                    ).grpc
                )
            )
            for name in ("full", "other")
        )
        while len(full.list_devices()) < len(("full", "other")):
            pass  # the next renewal brings the other one
        for _ in range(2):
            stack.enter_context(full.open_session())

        def opened() -> Mapping[str, Pair]:
            return {MOVED: Pair(subject=_session_ms(full), yardstick=_session_ms(other))}

        return measure_rounds([opened], rounds=rounds)


def _session_ms(client: Client) -> float:
    """The p50 of a session that is opened and closed."""
    return median(seconds_each(lambda: client.open_session().close(), times=SESSIONS)) * 1e3


def _show_cpu(cpu: Mapping[str, float]) -> None:
    table = Table("call", "processor time of the client, ms", title="clients of two services")
    for call, seconds in cpu.items():
        table.add_row(CALLS[call], f"{seconds * 1e3:.3f}")
    console().print(table)


if __name__ == "__main__":
    main()
