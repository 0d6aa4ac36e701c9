"""A client of bench-farm on one core: repeats a call for some seconds, one at a time."""

import json
import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable

from benchmarks.long_calls import CHANNELS, EDGE
from benchmarks.raw import RawCalls
from benchmarks.small_call import SmallCall
from opserve.v1.command_service_pb2 import Command, SubmitRequest
from opserve.v1.operator_service_pb2 import ExecuteRequest
from opserve.v1.stream_service_pb2 import SynchronizeStreamRequest
from opserve_client import Client, Im2colBackward, Session
from opserve_client.wire.methods import SUBMIT

KERNEL_CHANNELS = 2 * CHANNELS
"""Channels of an image whose columns a device folds in about 10 ms."""


def main() -> None:
    """Answers each line {"call", "seconds"} with the calls, their time and the CPU time of both."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--core", type=int, required=True)
    given = parser.parse_args()
    os.sched_setaffinity(0, {given.core})
    with (
        Client(given.address) as client,
        client.open_session("ascend910b") as session,
        RawCalls(given.address) as calls,
    ):
        small, kernel = SmallCall(session), kernel_call(session)
        by_name: dict[str, Callable[[], object]] = {
            "small": lambda: small.run(calls),
            "kernel": lambda: calls.call(SUBMIT, kernel),
        }
        _write(ready=True)
        for line in sys.stdin:
            request = json.loads(line)
            _write(**_repeated(by_name[request["call"]], seconds=request["seconds"]))


def kernel_call(session: Session) -> SubmitRequest:
    """Returns the message that executes a kernel of about 10 ms and waits for its end."""
    call = Im2colBackward(
        grad_output=session.empty((KERNEL_CHANNELS, EDGE * EDGE), "float32", format="ND"),
        input_size=[EDGE, EDGE],
        kernel_size=[1, 1],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
        out=session.empty((KERNEL_CHANNELS, EDGE, EDGE), "float32", format="ND"),
    )
    executor = session.get_workspace_size(call).executor
    executor.set_repeatable()
    commands = (
        Command(execute=ExecuteRequest(executor=executor.handle, stream=0)),
        Command(synchronize_stream=SynchronizeStreamRequest(stream=0)),
    )
    return SubmitRequest(session=session.name, commands=commands)


def _repeated(call: Callable[[], object], *, seconds: float) -> dict[str, float]:
    call()
    began_s, cpu_s, calls = time.perf_counter(), time.process_time(), 0
    while (took_s := time.perf_counter() - began_s) < seconds:
        call()
        calls += 1
    return {"calls": calls, "seconds": took_s, "cpu_s": time.process_time() - cpu_s}


def _write(**answer: object) -> None:
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
