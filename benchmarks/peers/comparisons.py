"""The rows of `make bench-peers`: what takes turns with what, how often, and the goals."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from benchmarks.commands import COMMANDS_A_BATCH
from benchmarks.peers.sizes import TRANSFERS_MIB
from benchmarks.peers.starts import MEMORY, READY

CLIENTS = 4
"""Processes that call at once, for rates."""
_MB = 1.048576
"""Bytes of one MiB, in millions."""
_BULK_MIB_A_ROUND = 128


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal of a row.

    Attributes:
        target: The worst value that meets it.
        better: Which values are better.
        of_itself: Whether it is for the number of opserve, not for the ratio.
    """

    target: float
    better: Literal["lower", "higher"] = "lower"
    of_itself: bool = False

    def met(self, value: float) -> bool:
        return value <= self.target if self.better == "lower" else value >= self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A row: calls of the benchmark's client, and of its own or Triton's client.

    Attributes:
        what: The row in words: opserve | peer.
        ours: Name of the call to opserve.
        theirs: Name of the call to the peer.
        by_triton: Whether Triton's client makes the call to the peer.
        goal: Goal.
        times: Calls of each side in a round; None: as many as CLIENTS processes make in a second.
        work: Units of work of a call to opserve and of one to the peer, for rows of rates.
    """

    what: str
    ours: str
    theirs: str
    by_triton: bool = False
    goal: Goal
    times: int | None = 200
    work: tuple[float, float] | None = None


def _sdk_and_plans() -> Iterator[Comparison]:
    yield Comparison(
        what="session.run of 1 KiB by the SDK over HTTP, ms | Triton's client over gRPC",
        ours="session.run by the SDK",
        theirs="client",
        by_triton=True,
        goal=Goal(1.3),
    )
    yield Comparison(
        what="GetWorkspaceSize by the SDK over HTTP, ms | bare grpc.aio echo",
        ours="plan by the SDK",
        theirs="echo",
        goal=Goal(0.8),
    )
    yield Comparison(
        what="GetWorkspaceSize, raw over gRPC, ms | bare grpc.aio echo",
        ours="raw plan over gRPC",
        theirs="echo",
        goal=Goal(1.4),
    )
    for way, target in (("REST", 4.0), ("Connect", 2.5)):
        yield Comparison(
            what=f"one-shot call of 1 KiB by {way}, ms | Triton over HTTP",
            ours=f"one-shot by {way}",
            theirs="Triton over HTTP",
            goal=Goal(target),
        )


def _allocated_calls() -> Iterator[Comparison]:
    for wire in ("gRPC", "HTTP"):
        yield Comparison(
            what=f"allocated call of 1 KiB, raw over {wire}, ms | Triton, raw over gRPC",
            ours=f"allocated over {wire}",
            theirs="raw",
            by_triton=True,
            goal=Goal(1.5),
        )
    for wire in ("gRPC", "HTTP"):
        yield Comparison(
            what=f"allocated call of 1 KiB over {wire} by {CLIENTS} clients, calls/s | Triton, raw",
            ours=f"allocated over {wire}",
            theirs="raw",
            by_triton=True,
            goal=Goal(0.6, "higher"),
            times=None,
            work=(1.0, 1.0),
        )


def _batches_and_large_calls() -> Iterator[Comparison]:
    for wire, target in (("gRPC", 30.0), ("HTTP", 20.0)):
        yield Comparison(
            what=f"Fill, {COMMANDS_A_BATCH} in a Submit over {wire}, commands/s | one in a call",
            ours=f"fills over {wire}",
            theirs=f"fill over {wire}",
            goal=Goal(target, "higher"),
            times=40,
            work=(COMMANDS_A_BATCH, 1.0),
        )
    for way, target in (("by shared memory", 0.6), ("over gRPC", 0.46), ("over HTTP", 0.3)):
        yield Comparison(
            what=f"16 MiB in, operator, 16 MiB out {way}, ms | Triton's client, the same way",
            ours=f"16 MiB {way}",
            theirs=f"16 MiB {way}",
            by_triton=True,
            goal=Goal(target),
            times=5,
        )


def _transfers() -> Iterator[Comparison]:
    for size in TRANSFERS_MIB:
        for wire in ("gRPC", "HTTP"):
            for transfer in ("upload", "download"):
                yield Comparison(
                    what=f"{transfer} of {size} MiB over {wire}, MB/s | bare server",
                    ours=f"{transfer} of {size} MiB over {wire}",
                    theirs=f"{transfer} of {size} MiB over bare {wire}",
                    goal=Goal(0.9, "higher"),
                    times=max(_BULK_MIB_A_ROUND // size, 1),
                    work=(size * _MB, size * _MB),
                )


COMPARISONS = (
    *_sdk_and_plans(),
    *_allocated_calls(),
    *_batches_and_large_calls(),
    *_transfers(),
)
GOALS = {row.what: row.goal for row in COMPARISONS} | {
    READY: Goal(2.0, of_itself=True),
    MEMORY: Goal(220.0, of_itself=True),
}
"""The goal of each row, by its words."""
