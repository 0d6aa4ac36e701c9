"""make bench: unary calls, whole calls and bulk bytes of the service beside bare gRPC."""

import argparse
import http.client
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import grpc

from benchmarks.bare import Bare, yardstick_address
from benchmarks.client_alone import IMPORT, SIZE, client_alone
from benchmarks.commands import BATCHED, COMMANDS_A_BATCH, Fills
from benchmarks.growth import measure_growth
from benchmarks.growth_page import write_page
from benchmarks.inference_calls import INFER, INFER_HTTP, InferenceCalls
from benchmarks.machine import machine
from benchmarks.mapped import CALL, WRITE, Calls, Copies
from benchmarks.measure import percentile, seconds_each, seconds_of
from benchmarks.neighbours import BESIDE, neighbours
from benchmarks.open_loop import open_loop
from benchmarks.report import Goal, show_goals, show_rows, write_goals
from benchmarks.rounds import (
    Pair,
    Rounds,
    at_least,
    at_most,
    at_most_beyond,
    at_most_itself,
    measure_rounds,
    rows,
)
from benchmarks.sdk_calls import SDK_PLAN, SdkCalls
from benchmarks.small_rest import REST_P50, REST_PLAN_P50, SmallCalls, echo_connection
from benchmarks.subject import LEASE_S, Bulk, Planning, WholeCalls
from opserve_client import Client
from opserve_client.private_service import private_service
from opserve_server.allocator import keep_freed_memory

ROUNDS = 9
UNARY_CALLS = 400
CALLS_AT_ONCE = 8
WHOLE_CALLS = 20
MIB = 1 << 20
SMALL_MIB, LARGE_MIB = 1, 64
BULK_MIB_A_ROUND = 128

P50 = "GetWorkspaceSize p50, ms | echo of its bytes"
P99 = "GetWorkspaceSize p99, ms | echo of its bytes"
RATE = "GetWorkspaceSize, calls/s | echo of its bytes"
RATE_AT_ONCE = f"GetWorkspaceSize, {CALLS_AT_ONCE} at once, calls/s | echo of its bytes"
COMMANDS = 23
SUBMIT = f"whole call in one Submit, calls/s | its {COMMANDS} commands one by one"
SEPARATE_RATE = f"whole two-phase call, {COMMANDS} calls one by one, calls/s | as many echoes"
SEPARATE_P50 = f"whole two-phase call, {COMMANDS} calls one by one, p50, ms | as many echoes"
SEPARATE_P99 = f"whole two-phase call, {COMMANDS} calls one by one, p99, ms | as many echoes"
UPLOAD = "upload of {} MiB, MB/s | bare chunk stream"
DOWNLOAD = "download of {} MiB, MB/s | bare chunk stream"


TITLE = (
    "median of {} rounds (least to greatest), after one warm-up round. "
    f"A round measures every line, opserve next to its yardstick: {UNARY_CALLS} unary calls, "
    f"{WHOLE_CALLS} whole calls, {BULK_MIB_A_ROUND} MiB each way; "
    "percentiles and ratios are of one round. All three processes keep freed memory."
)


def main() -> None:
    """Measures, prints, writes benchmarks/out/service.json and the page of growth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds: int = parser.parse_args().rounds
    described = machine()  # before the load of the benchmark itself
    measured = measure_service(rounds=rounds)
    show_rows(TITLE.format(rounds), rows(measured))
    grown = measure_growth(rounds=rounds)
    goals = [*goals_of(measured), *(row.goal for row in grown)]
    show_goals(goals)
    print(f"written to {write_goals('service', goals)}")
    short = "" if rounds >= ROUNDS else " (a short run: these are no results)"
    setting = f"{described}; median of {rounds} rounds{short}"
    print(f"written to {write_page(grown, rows(measured), setting=setting)}")


def measure_service(*, rounds: int) -> Rounds:
    """Returns the rounds of each quantity beside its yardstick."""
    # Like the service: otherwise page faults of this process dominate an upload of 1 MiB.
    keep_freed_memory()
    with ExitStack() as stack:
        alone = stack.enter_context(client_alone())
        service = stack.enter_context(private_service(log_level="WARNING"))
        channel = stack.enter_context(grpc.insecure_channel(service.grpc))
        planning, calls = Planning(channel), WholeCalls(channel)
        yardstick = stack.enter_context(
            yardstick_address(buffer_bytes=LARGE_MIB * MIB, answer_bytes=planning.plan().ByteSize())
        )
        echo = stack.enter_context(echo_connection())
        rest = http.client.HTTPConnection(service.rest.removeprefix("http://"))
        bare = Bare(stack.enter_context(grpc.insecure_channel(yardstick)))
        client = stack.enter_context(Client(service.grpc))
        session = stack.enter_context(client.open_session(lease_s=LEASE_S))
        over_http = stack.enter_context(Client(service.rest))
        http_session = stack.enter_context(over_http.open_session(lease_s=LEASE_S))
        beside = stack.enter_context(neighbours(service.grpc, channel))
        loaded = stack.enter_context(
            open_loop({"gRPC": service.grpc, "HTTP": service.rest}, yardstick)
        )
        return measure_rounds(
            (
                lambda: unary_calls(planning, bare),
                lambda: whole_calls(calls, bare),
                Fills(channel).measure,
                SmallCalls(rest, echo).measure,
                SdkCalls(http_session, bare).measure,
                InferenceCalls(channel, service.rest).measure,
                Transfers(Bulk(service.grpc, SMALL_MIB * MIB), bare, SMALL_MIB).measure,
                Transfers(Bulk(service.grpc, LARGE_MIB * MIB), bare, LARGE_MIB).measure,
                Copies(session).measure,
                Calls(session).measure,
                beside.measure,
                alone.measure,
                loaded.measure,
            ),
            rounds=rounds,
        )


def goals_of(measured: Rounds) -> list[Goal]:
    """Returns the goals for the ratios."""
    streamed = [(UPLOAD, "upload"), (DOWNLOAD, "download")]
    return [
        at_least(
            3.0, "whole call in one Submit: rate over its commands one by one", measured[SUBMIT]
        ),
        at_least(
            30.0,
            f"{COMMANDS_A_BATCH} commands in one Submit: rate over one in a call",
            measured[BATCHED],
        ),
        at_most(1.4, "unary GetWorkspaceSize: p50 over a bare gRPC echo's", measured[P50]),
        at_most(
            0.8,
            "GetWorkspaceSize by the SDK over HTTP: p50 over a bare gRPC echo's",
            measured[SDK_PLAN],
        ),
        at_most(1.3, "ModelInfer of 1 KiB: p50 over the RPC Run's", measured[INFER]),
        at_most(1.3, "/v2 infer of 1 KiB: p50 over the one-shot form's", measured[INFER_HTTP]),
        at_most(1.8, "small REST call: p50 over a bare Starlette echo's", measured[REST_P50]),
        at_most(
            2.3,
            "REST GetWorkspaceSize: p50 over a bare Starlette echo's of the body",
            measured[REST_PLAN_P50],
        ),
        *(
            at_least(
                0.9,
                f"{name} of {size} MiB: rate over a bare chunk stream's",
                measured[row.format(size)],
            )
            for size in (SMALL_MIB, LARGE_MIB)
            for row, name in streamed
        ),
        at_least(0.9, "mapped write of 64 MiB: rate over a memcpy's", measured[WRITE]),
        at_most_beyond(6.0, "16 MiB up, operator, 16 MiB down: ms beyond it", measured[CALL]),
        at_most(2.0, "small call beside an upload: p99 over that beside a hog", measured[BESIDE]),
        at_most_itself(0.25, "import of the client: seconds of the process", measured[IMPORT]),
        at_most_itself(100.0, "client installed alone by pip: MB", measured[SIZE]),
    ]


def unary_calls(planning: Planning, bare: Bare) -> Mapping[str, Pair]:
    """Measures phase one of a small ConvolutionBackward beside an echo of as many bytes."""
    message = planning.request.SerializeToString()
    executors: list[int] = []

    def plan() -> None:
        executors.append(planning.plan().executor)

    def echo() -> None:
        bare.echo(message)

    theirs = seconds_each(echo, times=UNARY_CALLS)
    ours = seconds_each(plan, times=UNARY_CALLS)
    at_once = Pair(subject=rate_at_once(plan), yardstick=rate_at_once(echo))
    planning.destroy(executors)
    return {
        P50: milliseconds(50, ours, theirs),
        P99: milliseconds(99, ours, theirs),
        RATE: Pair(subject=UNARY_CALLS / sum(ours), yardstick=UNARY_CALLS / sum(theirs)),
        RATE_AT_ONCE: at_once,
    }


def rate_at_once(call: Callable[[], None]) -> float:
    """Returns the calls per second of several threads."""

    def all_calls() -> None:
        with ThreadPoolExecutor(CALLS_AT_ONCE) as threads:
            for started in [threads.submit(call) for _ in range(UNARY_CALLS)]:
                started.result()

    return UNARY_CALLS / seconds_of(all_calls)


def whole_calls(calls: WholeCalls, bare: Bare) -> Mapping[str, Pair]:
    """Measures whole calls in one round trip, and in one for each command beside echoes."""
    assert calls.call_by_submit() == calls.call_separately(), "both have the same results"
    assert len(calls.whole_call()) == COMMANDS

    def echoes() -> None:
        for _ in range(COMMANDS):
            bare.echo(b"")

    theirs = seconds_each(echoes, times=WHOLE_CALLS)
    submitted = seconds_each(calls.call_by_submit, times=WHOLE_CALLS)
    separate = seconds_each(calls.call_separately, times=WHOLE_CALLS)
    rate = WHOLE_CALLS / sum(separate)
    return {
        SUBMIT: Pair(subject=WHOLE_CALLS / sum(submitted), yardstick=rate),
        SEPARATE_RATE: Pair(subject=rate, yardstick=WHOLE_CALLS / sum(theirs)),
        SEPARATE_P50: milliseconds(50, separate, theirs),
        SEPARATE_P99: milliseconds(99, separate, theirs),
    }


def milliseconds(percent: int, ours: Sequence[float], theirs: Sequence[float]) -> Pair:
    """Returns a percentile of both, in milliseconds."""
    return Pair(
        subject=percentile(ours, percent) * 1e3, yardstick=percentile(theirs, percent) * 1e3
    )


@dataclass(frozen=True, slots=True)
class Transfers:
    """Bytes to and from a buffer, beside bare streams of the same chunks."""

    bulk: Bulk
    bare: Bare
    size_mib: int

    def measure(self) -> Mapping[str, Pair]:
        data = memoryview(bytes(range(256)) * (self.size_mib * MIB // 256))
        mine = memoryview(bytearray(len(data)))
        its = memoryview(bytearray(len(data)))
        measured = {
            UPLOAD.format(self.size_mib): Pair(
                yardstick=self._rate(lambda: self.bare.upload(data)),
                subject=self._rate(lambda: self.bulk.upload(data)),
            ),
            DOWNLOAD.format(self.size_mib): Pair(
                yardstick=self._rate(lambda: self.bare.download(its)),
                subject=self._rate(lambda: self.bulk.download(mine)),
            ),
        }
        assert mine == its == data, "the bytes return unchanged"
        return measured

    def _rate(self, transfer: Callable[[], None]) -> float:
        times = BULK_MIB_A_ROUND // self.size_mib
        return self.size_mib * MIB * times / 1e6 / sum(seconds_each(transfer, times=times))


if __name__ == "__main__":
    main()
