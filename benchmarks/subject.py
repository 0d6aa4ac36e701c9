"""The subject: calls to opserve by raw stubs, so that benchmarks measure only the service."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import grpc
import numpy as np

from benchmarks.yardstick import CHUNK_BYTES
from opserve.v1 import command_service_pb2 as commands
from opserve.v1 import convolution_backward_pb2 as convolution
from opserve.v1 import memory_service_pb2 as memory
from opserve.v1 import operator_service_pb2 as operators
from opserve.v1 import session_service_pb2 as sessions
from opserve.v1 import stream_service_pb2 as streams
from opserve.v1 import tensor_pb2 as tensor
from opserve.v1.command_service_pb2_grpc import CommandServiceStub
from opserve.v1.memory_service_pb2_grpc import MemoryServiceStub
from opserve.v1.operator_service_pb2_grpc import OperatorServiceStub
from opserve.v1.session_service_pb2_grpc import SessionServiceStub
from opserve.v1.stream_service_pb2_grpc import StreamServiceStub
from opserve_client.channels_blocking import open_channels
from opserve_client.wire.chunks import read_chunk, write_messages
from opserve_client.wire.methods import READ, WRITE

SHAPES = {
    "grad_output": (1, 4, 8, 8),
    "input": (1, 4, 8, 8),
    "weight": (4, 4, 3, 3),
    "grad_input": (1, 4, 8, 8),
    "grad_weight": (4, 4, 3, 3),
    "grad_bias": (4,),
}
INPUTS = ("grad_output", "input", "weight")
LEASE_S = 600.0
COMMANDS_AT_ONCE = 512
OUTPUTS = ("grad_input", "grad_weight", "grad_bias")


class Planning:
    """Phase one of a small convolution whose tensors have no buffers.

    Args:
        channel: Channel to the service.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._session = open_session(channel)
        self._operators = OperatorServiceStub(channel)
        self._commands = CommandServiceStub(channel)
        self.request = operators.GetWorkspaceSizeRequest(
            session=self._session, convolution_backward=arguments(dict.fromkeys(SHAPES, 0))
        )

    def plan(self) -> operators.GetWorkspaceSizeResponse:
        return self._operators.GetWorkspaceSize(self.request)

    def destroy(self, executors: list[int]) -> None:
        """Destroys executors of plans."""
        for start in range(0, len(executors), COMMANDS_AT_ONCE):
            batch = [
                commands.Command(
                    destroy_executor=operators.DestroyExecutorRequest(executor=executor)
                )
                for executor in executors[start : start + COMMANDS_AT_ONCE]
            ]
            submit(self._commands, self._session, batch)


class Bulk:
    """A buffer, filled and read in chunks over the client's channels.

    Args:
        address: Address of the service.
        size_bytes: Size of the buffer in bytes.
    """

    def __init__(self, address: str, size_bytes: int) -> None:
        self._channels = channel, reading = open_channels(address, None)  # kept open
        self._session = open_session(channel)
        request = memory.AllocateRequest(session=self._session, size_bytes=size_bytes)
        self._buffer = MemoryServiceStub(channel).Allocate(request).buffer
        self._write: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(WRITE.path)
        self._read: grpc.UnaryStreamMultiCallable[memory.ReadRequest, bytes] = reading.unary_stream(
            READ.path, memory.ReadRequest.SerializeToString
        )

    def upload(self, data: memoryview) -> None:
        request = memory.WriteRequest(
            session=self._session, buffer=self._buffer, size_bytes=len(data)
        )
        self._write(write_messages(request, data))

    def download(self, target: memoryview) -> None:
        request = memory.ReadRequest(
            session=self._session, buffer=self._buffer, size_bytes=len(target)
        )
        offset = 0
        for message in self._read(request):
            data = read_chunk(message)
            target[offset : offset + len(data)] = data
            offset += len(data)
        assert offset == len(target)


class WholeCalls:
    """Two-phase calls from arrays to arrays, in one round trip or in many.

    Args:
        channel: A channel to the service.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._session = open_session(channel)
        self._memory = MemoryServiceStub(channel)
        self._operators = OperatorServiceStub(channel)
        self._streams = StreamServiceStub(channel)
        self._commands = CommandServiceStub(channel)
        self._buffers = count(1)
        self._executors = count(1)
        self._inputs = {name: noise(SHAPES[name]).tobytes() for name in INPUTS}

    def call_by_submit(self) -> list[bytes]:
        """Sends all commands in one round trip; returns the outputs."""
        results = submit(self._commands, self._session, self.whole_call())
        return [found.read.data for found in results if found.HasField("read")]

    def call_separately(self) -> list[bytes]:
        """Sends the same commands in one round trip each; returns the outputs."""
        answers = [self._run(command) for command in self.whole_call()]
        return [answer for answer in answers if answer is not None]

    def whole_call(self) -> list[commands.Command]:
        """Returns the commands of a call: allocate, write, both phases, read, free."""
        buffers = {name: next(self._buffers) for name in SHAPES}
        workspace, executor = next(self._buffers), next(self._executors)
        plan = operators.GetWorkspaceSizeRequest(
            executor=executor, convolution_backward=arguments(buffers)
        )
        scratch = memory.AllocateRequest(workspace_of=executor, buffer=workspace)
        execute = operators.ExecuteRequest(executor=executor, workspace=workspace)
        return [
            *(allocate(buffers[name], size_bytes(name)) for name in SHAPES),
            *(write(buffers[name], self._inputs[name]) for name in INPUTS),
            commands.Command(get_workspace_size=plan),
            commands.Command(allocate=scratch),
            commands.Command(execute=execute),
            commands.Command(synchronize_stream=streams.SynchronizeStreamRequest()),
            *(read(buffers[name], size_bytes(name)) for name in OUTPUTS),
            *(free(buffer) for buffer in (*buffers.values(), workspace)),
        ]

    def _run(self, command: commands.Command) -> bytes | None:
        kind = command.WhichOneof("command")
        assert kind is not None
        if kind == "write":
            data = memoryview(command.write.data)
            self._memory.Write(write_requests(self._session, command.write.buffer, data))
            return None
        if kind == "read":
            target = bytearray(command.read.size_bytes)
            download(self._memory, self._session, command.read.buffer, memoryview(target))
            return bytes(target)
        request = getattr(command, kind)
        request.session = self._session
        self._unary(kind)(request)
        return None

    def _unary(self, kind: str) -> Callable[[Any], object]:
        methods: dict[str, Callable[[Any], object]] = {
            "allocate": self._memory.Allocate,
            "free": self._memory.Free,
            "get_workspace_size": self._operators.GetWorkspaceSize,
            "execute": self._operators.Execute,
            "synchronize_stream": self._streams.SynchronizeStream,
        }
        return methods[kind]


def open_session(channel: grpc.Channel) -> str:
    """Opens a session whose lease is longer than the benchmark; returns its name."""
    request = sessions.OpenSessionRequest(lease_s=LEASE_S)
    return SessionServiceStub(channel).OpenSession(request).session


def submit(
    stub: CommandServiceStub, session: str, batch: list[commands.Command]
) -> list[commands.CommandResult]:
    results = stub.Submit(commands.SubmitRequest(session=session, commands=batch)).results
    assert not results[-1].HasField("error"), results[-1].error
    return list(results)


def write_requests(session: str, buffer: int, data: memoryview) -> Iterator[memory.WriteRequest]:
    first = bytes(data[:CHUNK_BYTES])
    yield memory.WriteRequest(session=session, buffer=buffer, size_bytes=len(data), data=first)
    for start in range(CHUNK_BYTES, len(data), CHUNK_BYTES):
        yield memory.WriteRequest(data=bytes(data[start : start + CHUNK_BYTES]))


def download(stub: MemoryServiceStub, session: str, buffer: int, target: memoryview) -> None:
    offset = 0
    request = memory.ReadRequest(session=session, buffer=buffer, size_bytes=len(target))
    for response in stub.Read(request):
        data = response.data  # each access copies
        target[offset : offset + len(data)] = data
        offset += len(data)
    assert offset == len(target)


def arguments(buffers: dict[str, int]) -> convolution.ConvolutionBackward:
    """Returns the arguments of a 3x3 convolution over a small image."""
    pair = tensor.Int64Array(values=[1, 1])
    return convolution.ConvolutionBackward(
        **{name: tensor_of(name, buffer) for name, buffer in buffers.items()},
        bias_sizes=tensor.Int64Array(values=SHAPES["grad_bias"]),
        stride=pair,
        padding=pair,
        dilation=pair,
        transposed=False,
        output_padding=tensor.Int64Array(values=[0, 0]),
        groups=1,
        output_mask=tensor.BoolArray(values=[True, True, True]),
        cube_math_type=0,
    )


def tensor_of(name: str, buffer: int) -> tensor.Tensor:
    shape = SHAPES[name]
    layout = tensor.FORMAT_NCHW if len(shape) > 1 else tensor.FORMAT_ND
    return tensor.Tensor(shape=shape, dtype=tensor.DATA_TYPE_FLOAT, format=layout, buffer=buffer)


def allocate(buffer: int, size: int) -> commands.Command:
    return commands.Command(allocate=memory.AllocateRequest(buffer=buffer, size_bytes=size))


def write(buffer: int, data: bytes) -> commands.Command:
    request = memory.WriteRequest(buffer=buffer, size_bytes=len(data), data=data)
    return commands.Command(write=request)


def read(buffer: int, size: int) -> commands.Command:
    return commands.Command(read=memory.ReadRequest(buffer=buffer, size_bytes=size))


def free(buffer: int) -> commands.Command:
    return commands.Command(free=memory.FreeRequest(buffer=buffer))


def size_bytes(name: str) -> int:
    return int(np.prod(SHAPES[name])) * np.dtype(np.float32).itemsize


def noise(shape: tuple[int, ...]) -> "np.ndarray[Any, np.dtype[np.float32]]":
    return np.random.default_rng(20261121).standard_normal(shape).astype(np.float32)
