"""A client of opserve, of bare servers, and of Triton's HTTP port: all calls in one process."""

import argparse
import json
from collections.abc import Callable, Mapping
from functools import partial

import grpc
import numpy as np

from benchmarks.bare import Bare
from benchmarks.commands import COMMANDS_A_BATCH
from benchmarks.one_shot import connect_request, rest_request
from benchmarks.peers.driver import Call, drive
from benchmarks.peers.http_bytes import HttpBytes
from benchmarks.peers.sizes import LARGE_BYTES, SMALL_BYTES, TRANSFERS_MIB
from benchmarks.raw import RawCalls
from benchmarks.small_call import COLUMNS, DATA, IMAGE, SmallCall, fold
from benchmarks.subject import LEASE_S, Bulk
from opserve.v1.command_service_pb2 import Command, SubmitRequest
from opserve.v1.memory_service_pb2 import AllocateRequest, FillRequest, WriteRequest
from opserve_client import Client, Im2colBackward, Session
from opserve_client.http_blocking import HttpConnections
from opserve_client.wire.http_messages import Request, origin_of
from opserve_client.wire.methods import ALLOCATE, FILL, GET_WORKSPACE_SIZE, SUBMIT
from opserve_client.wire.rest_routes import content_path
from opserve_server.allocator import keep_freed_memory

_MIB = 1 << 20
_PLAN_BYTES = 200
"""Size of a request of phase one."""
_FILLED_BYTES = 512
_CHANNELS, _SIDE = 64, 256
_TIMEOUT_S = 60.0
_OK = 200
_Calls = Mapping[str, Callable[[], Call]]
_End = Bulk | Bare | HttpBytes


def main() -> None:
    """Answers requests; the arguments are addresses."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("grpc", "http", "streams-grpc", "streams-http", "echo", "asgi", "triton-http"):
        parser.add_argument(f"--{name}", required=True)
    at = parser.parse_args()
    keep_freed_memory()  # as the servers do: page faults would dominate transfers
    drive(
        {
            **_of_opserve(at.grpc, at.http),
            **_large_calls(at.http, at.streams_grpc, at.streams_http),
            **_transfers(at.streams_grpc, at.streams_http, at.echo, at.asgi),
            "echo": lambda: _echo(at.echo),
            "Triton over HTTP": lambda: _triton_over_http(at.triton_http),
        }
    )


def _of_opserve(grpc_address: str, url: str) -> _Calls:
    return {
        "session.run by the SDK": lambda: _run(_session(url)),
        "plan by the SDK": lambda: _plan(_session(url)),
        "raw plan over gRPC": lambda: _raw_plan(grpc_address),
        "allocated over gRPC": lambda: _allocated(grpc_address),
        "allocated over HTTP": lambda: _allocated(url),
        "one-shot by REST": lambda: _posted(url, rest_request()),
        "one-shot by Connect": lambda: _posted(url, connect_request()),
        "fill over gRPC": lambda: _fill(grpc_address, commands=1),
        "fill over HTTP": lambda: _fill(url, commands=1),
        "fills over gRPC": lambda: _fill(grpc_address, commands=COMMANDS_A_BATCH),
        "fills over HTTP": lambda: _fill(url, commands=COMMANDS_A_BATCH),
    }


def _session(address: str) -> Session:
    return Client(address).open_session("ascend910b", lease_s=LEASE_S)


def _run(session: Session) -> Call:
    call = fold(np.arange(SMALL_BYTES // 4, dtype=np.float32).reshape(COLUMNS), None)
    return lambda: session.run(call)


def _plan(session: Session) -> Call:
    call = fold(session.upload(np.ones(COLUMNS, np.float32)), session.empty(IMAGE, np.float32))
    return lambda: session.get_workspace_size(call)


def _raw_plan(address: str) -> Call:
    session = _session(address)
    calls, small = RawCalls(address), SmallCall(session)
    request = small.plan()
    request.session = session.name
    return lambda: calls.call(GET_WORKSPACE_SIZE, request)


def _allocated(address: str) -> Call:
    calls, small = RawCalls(address), SmallCall(_session(address))
    return lambda: small.run(calls)


def _triton_over_http(url: str) -> Call:
    """A call by Triton's binary extension: a header in JSON, and bytes."""
    given = {
        "name": "INPUT",
        "shape": [SMALL_BYTES // 4],
        "datatype": "FP32",
        "parameters": {"binary_data_size": SMALL_BYTES},
    }
    wanted = {"name": "OUTPUT", "parameters": {"binary_data": True}}
    header = json.dumps({"inputs": [given], "outputs": [wanted]}).encode()
    fields = (("Inference-Header-Content-Length", str(len(header))),)
    body = header + DATA
    return _posted(url, Request("POST", "/v2/models/identity/infer", fields, body))


def _posted(url: str, request: Request) -> Call:
    http = HttpConnections(origin_of(url), None)

    def call() -> None:
        status, answer = http.call(request, timeout_s=_TIMEOUT_S)
        assert status == _OK, answer
        assert DATA in answer, "a wrong answer"

    return call


def _fill(address: str, *, commands: int) -> Call:
    """Fills of a small buffer: one in a call, or many in a Submit."""
    name, calls = _session(address).name, RawCalls(address)
    buffer = calls.call(ALLOCATE, AllocateRequest(session=name, size_bytes=_FILLED_BYTES)).buffer
    fill = FillRequest(buffer=buffer, size_bytes=_FILLED_BYTES)
    if commands == 1:
        fill.session = name
        return lambda: calls.call(FILL, fill)
    batch = SubmitRequest(session=name, commands=[Command(fill=fill)] * commands)

    def call() -> None:
        results = calls.call(SUBMIT, batch).results
        assert len(results) == commands
        assert results[-1].HasField("fill")

    return call


def _echo(address: str) -> Call:
    bare = Bare(grpc.insecure_channel(address))
    return lambda: bare.echo(bytes(_PLAN_BYTES))


def _large_calls(mapped: str, grpc_address: str, url: str) -> _Calls:
    """session.run of 16 MiB through shared memory, and by streams of both wires."""
    return {
        "16 MiB by shared memory": lambda: _large_call(_session(mapped)),
        "16 MiB over gRPC": lambda: _large_call(_session(grpc_address)),
        "16 MiB over HTTP": lambda: _large_call(_session(url)),
    }


def _large_call(session: Session) -> Call:
    shape = (_CHANNELS, _SIDE * _SIDE)
    array = np.arange(LARGE_BYTES // 4, dtype=np.float32).reshape(shape)
    call = Im2colBackward(
        grad_output=array,
        input_size=[_SIDE, _SIDE],
        kernel_size=[1, 1],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
    )

    def run() -> None:
        out = session.run(call).out
        assert out is not None
        assert out[-1, -1, -1] == array[-1, -1]

    return run


def _transfers(grpc_address: str, url: str, echo: str, asgi: str) -> _Calls:
    """Transfers to and from opserve and bare servers, by size and wire."""
    made: dict[str, Callable[[], Call]] = {}
    for size_mib in TRANSFERS_MIB:
        size = size_mib * _MIB
        ends: dict[str, Callable[[], _End]] = {
            "over gRPC": partial(Bulk, grpc_address, size),
            "over bare gRPC": lambda: Bare(grpc.insecure_channel(echo)),
            "over HTTP": partial(_buffer_over_http, url, size),
            "over bare HTTP": partial(HttpBytes, asgi, put="/", get=f"/?{size}"),
        }
        for where, end in ends.items():
            made[f"upload of {size_mib} MiB {where}"] = partial(_upload, end, size)
            made[f"download of {size_mib} MiB {where}"] = partial(_download, end, size)
    return made


def _buffer_over_http(url: str, size: int) -> HttpBytes:
    session = _session(url)
    request = WriteRequest(session=session.name, buffer=session.allocate(size).handle)
    path = content_path(request)
    return HttpBytes(url, put=f"{path}?offset=0", get=path)


def _upload(end: "Callable[[], _End]", size: int) -> Call:
    transfer, data = end(), memoryview(bytes(range(256)) * (size // 256))
    return lambda: transfer.upload(data)


def _download(end: "Callable[[], _End]", size: int) -> Call:
    transfer, target = end(), memoryview(bytearray(size))
    return lambda: transfer.download(target)


if __name__ == "__main__":
    main()
