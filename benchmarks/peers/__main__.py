"""make bench-peers: opserve beside Triton and bare servers, each row with its goal."""

import argparse
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

from rich.table import Table

from benchmarks.bare import yardstick_address
from benchmarks.machine import machine
from benchmarks.peers.asgi import asgi_url
from benchmarks.peers.comparisons import CLIENTS, COMPARISONS, GOALS, Comparison
from benchmarks.peers.sizes import TRANSFERS_MIB
from benchmarks.peers.starts import measure_starts
from benchmarks.peers.triton_server import triton
from benchmarks.processes import Program, program
from benchmarks.report import OUT, Row, console, with_spread
from benchmarks.rounds import Pair, Part, measure_rounds, rows
from opserve_client.private_service import private_service

ROUNDS = 9
_RATE_S = 1.0
_ECHO_BYTES = 20
"""Size of the echo's answer: that of phase one."""
_ROOM = {"executors_limit": "1000000", "log_level": "ERROR"}
"""Plans are measured without the calls that destroy them."""


def main() -> None:
    """Measures, prints, and writes benchmarks/out/peers.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, required=True, help="of the peers' environment")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    described = machine()  # before the load of the benchmark itself
    with _clients(given.python) as clients:
        parts: list[Part] = [partial(clients.compare, row) for row in COMPARISONS]
        parts.append(partial(measure_starts, given.python))
        measured = rows(measure_rounds(parts, rounds=given.rounds))
    title = f"{described}; median of {given.rounds} rounds (least to greatest)"
    _show(measured, title=title)
    print(f"written to {_write(measured, machine=described)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Processes that call the servers.

    Attributes:
        of_opserve: Clients of opserve, of bare servers, and of Triton's HTTP port.
        of_triton: Clients of Triton.
    """

    of_opserve: Sequence[Program]
    of_triton: Sequence[Program]

    def compare(self, row: Comparison) -> Mapping[str, Pair]:
        """Measures both sides of a row, one after the other."""
        theirs = _of_each(self.of_triton if row.by_triton else self.of_opserve, row, row.theirs)
        ours = _of_each(self.of_opserve, row, row.ours)
        if row.work is None:
            return {row.what: Pair(subject=ours * 1e3, yardstick=theirs * 1e3)}
        return {row.what: Pair(subject=row.work[0] / ours, yardstick=row.work[1] / theirs)}


def _of_each(clients: Sequence[Program], row: Comparison, call: str) -> float:
    """Returns the seconds of a call: the median of one client, or the share among all."""
    if row.times is not None:
        clients[0].send(call=call, times=row.times)
        seconds: list[float] = clients[0].receive()["seconds"]
        return median(seconds)
    for client in clients:
        client.send(call=call, times=1)  # prepares it
    for client in clients:
        client.receive()
    for client in clients:
        client.send(call=call, for_s=_RATE_S)
    calls: int = sum(client.receive()["calls"] for client in clients)
    return _RATE_S / calls


@contextmanager
def _clients(python: Path) -> Generator[Clients]:
    """Runs all servers and clients until the block ends."""
    largest = max(TRANSFERS_MIB) << 20
    with ExitStack() as stack:
        start = stack.enter_context
        # Where both are on one host, bytes travel by shared memory, if the service has it.
        mapped = start(private_service(**_ROOM))
        streams = start(private_service(shared_memory="false", **_ROOM))
        server = start(triton(python))
        addresses = {
            "grpc": mapped.grpc,
            "http": mapped.rest,
            "streams-grpc": streams.grpc,
            "streams-http": streams.rest,
            "echo": start(yardstick_address(buffer_bytes=largest, answer_bytes=_ECHO_BYTES)),
            "asgi": start(asgi_url(buffer_bytes=largest)),
            "triton-http": server.http,
        }
        words = [f"--{name}={address}" for name, address in addresses.items()]
        yield Clients(
            of_opserve=[start(program("benchmarks.peers.clients", *words)) for _ in range(CLIENTS)],
            of_triton=[
                start(
                    program(
                        "benchmarks.peers.triton_client",
                        server.grpc,
                        server.http,
                        python=str(python),
                    )
                )
                for _ in range(CLIENTS)
            ],
        )


def _show(measured: Sequence[Row], *, title: str) -> None:
    table = Table("opserve | peer", "opserve", "peer", "ratio", "goal", "met", title=title)
    for row in measured:
        figures = [with_spread(found) for found in (row.subject, row.yardstick, row.ratio)]
        goal = GOALS[row.what]
        sign = "<=" if goal.better == "lower" else ">="
        of = " (opserve)" if goal.of_itself else ""
        met = "[green]yes[/]" if goal.met(_value(row)) else "[red]no[/]"
        table.add_row(row.what, *figures, f"{sign} {goal.target:g}{of}", met)
    console().print(table)


def _write(measured: Sequence[Row], *, machine: str) -> Path:
    judged = [
        asdict(row) | {"goal": asdict(GOALS[row.what]), "met": GOALS[row.what].met(_value(row))}
        for row in measured
    ]
    OUT.mkdir(exist_ok=True)
    path = OUT / "peers.json"
    path.write_text(json.dumps({"machine": machine, "rows": judged}, indent=2) + "\n")
    return path


def _value(row: Row) -> float:
    """Returns the number that the goal is for."""
    return row.subject.value if GOALS[row.what].of_itself else row.ratio.value


if __name__ == "__main__":
    main()
