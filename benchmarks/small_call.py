"""A small allocated call: write 1 KiB, execute, synchronise and read it, in one Submit."""

from collections.abc import Sequence

import numpy as np

from benchmarks.raw import RawCalls
from opserve.v1.command_service_pb2 import Command, CommandResult, SubmitRequest
from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest
from opserve.v1.operator_service_pb2 import ExecuteRequest, GetWorkspaceSizeRequest
from opserve.v1.stream_service_pb2 import SynchronizeStreamRequest
from opserve_client import Im2colBackward, Session
from opserve_client.operators import device_tensors, get_workspace_size_request, plain
from opserve_client.wire.methods import SUBMIT

BYTES = 1024
DATA = np.arange(BYTES // 4, dtype=np.float32).tobytes()
COLUMNS, IMAGE = (4, BYTES // 16), (4, 8, 8)


class SmallCall:
    """The commands of a call whose buffers and executor exist.

    Args:
        session: The session.
        stream: Handle of the stream.

    Attributes:
        request: Its message.
    """

    def __init__(self, session: Session, *, stream: int = 0) -> None:
        columns, image = session.empty(COLUMNS, "float32"), session.empty(IMAGE, "float32")
        self._fold = plain(fold(columns, image))
        executor = session.get_workspace_size(self._fold).executor
        executor.set_repeatable()
        assert columns.buffer is not None
        assert image.buffer is not None
        source, target = columns.buffer.handle, image.buffer.handle
        commands = (
            Command(write=WriteRequest(buffer=source, size_bytes=BYTES, data=DATA)),
            Command(execute=ExecuteRequest(executor=executor.handle, stream=stream)),
            Command(synchronize_stream=SynchronizeStreamRequest(stream=stream)),
            Command(read=ReadRequest(buffer=target, size_bytes=BYTES)),
        )
        self.request = SubmitRequest(session=session.name, commands=commands)

    def run(self, calls: RawCalls) -> None:
        """Makes the call."""
        check(calls.call(SUBMIT, self.request).results)

    def plan(self, executor: int = 0) -> GetWorkspaceSizeRequest:
        """Returns phase one of the same call, with a handle for the executor or 0."""
        tensors = device_tensors(self._fold)
        return get_workspace_size_request(self._fold, tensors, executor=executor)


def check(results: Sequence[CommandResult]) -> None:
    """Checks that the last command read the bytes that the first one wrote."""
    assert results[-1].read.data == DATA, results


def fold(grad_output: object, out: object) -> Im2colBackward:
    """Returns a fold by windows of 1x1, which copies 1 KiB."""
    arguments = {"grad_output": grad_output, "out": out}
    return Im2colBackward(
        **arguments,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  arrays or tensors
        input_size=IMAGE[1:],
        kernel_size=[1, 1],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
    )
