"""Convolutions by the two-phase protocol: plan once, execute at every step."""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from opserve.v1.command_service_pb2 import Command, CommandResult
from opserve.v1.memory_service_pb2 import ReadRequest, WriteRequest
from opserve.v1.operator_service_pb2 import ExecuteRequest
from opserve.v1.stream_service_pb2 import SynchronizeStreamRequest
from opserve_client import (
    Convolution,
    ConvolutionBackward,
    CubeMathType,
    Plan,
    Session,
    Tensor,
)
from opserve_client.demo.network import Array, Gradients, Layer

FORWARD, BACKWARD = "aclnnConvolution", "aclnnConvolutionBackward"


@dataclass(slots=True)
class Traffic:
    """Costs of the calls in the client.

    Attributes:
        seconds: Seconds of each call, by operator.
        bytes_moved: Bytes of all calls.
    """

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    bytes_moved: int = 0

    def count(self, operator: str, started: float, arrays: Sequence[Array]) -> None:
        """Adds a call that began at a time of `time.perf_counter`."""
        self.seconds[operator].append(time.perf_counter() - started)
        self.bytes_moved += sum(array.nbytes for array in arrays)


class RemoteConvolution:
    """The repeatable executors of a layer, forward and backward, with their device memory.

    Both read the images and weights that the forward call uploads.

    Args:
        session: An open session.
        layer: The convolution.
        batch: Number of images in a step; fixed, as the shapes of an executor are fixed.
        traffic: Counter of calls and bytes.
    """

    def __init__(self, session: Session, layer: Layer, *, batch: int, traffic: Traffic) -> None:
        channels, kernels = layer.channels
        images = (batch, channels, layer.size, layer.size)
        output = (batch, kernels, layer.output_size, layer.output_size)
        weight = (kernels, channels, 3, 3)
        self._session, self._layer, self._traffic = session, layer, traffic
        self._images, self._output = (session.empty(s, "float32") for s in (images, output))
        self._grad_output = session.empty(output, "float32")
        self._grad_input = session.empty(images, "float32") if layer.needs_grad_input else None
        self._parameters = _Parameters(session, weight)
        self._gradients = _Parameters(session, weight)
        self._forward = _Executor(session, session.get_workspace_size(self._convolution()))
        self._backward = _Executor(session, session.get_workspace_size(self._call_of_gradients()))

    def forward(self, images: Array, weight: Array, bias: Array) -> Array:
        """Writes the operands, executes, synchronises and reads the output."""
        started = time.perf_counter()
        if images.shape == self._images.shape:
            self._images.upload(images)
            self._forward.run(before=self._parameters.writing(weight, bias))
            output = self._output.download()
        else:
            # A batch of another size has no executor: it is one call of the session.
            output = self._session.run(_convolution(self._layer, images, weight, bias)).output
        self._traffic.count(FORWARD, started, (images, weight, bias, output))
        return output

    def gradients(self, grad_output: Array) -> Gradients:
        """Writes grad_output; the images and weights are those of the last forward call."""
        started = time.perf_counter()
        self._grad_output.upload(grad_output)
        results = self._backward.run(behind=self._gradients.reading())
        grad_weight, grad_bias = self._gradients.elements(results[-1])
        grad_input = None if self._grad_input is None else self._grad_input.download()
        moved = [grad_output, grad_weight, grad_bias]
        moved += [] if grad_input is None else [grad_input]
        self._traffic.count(BACKWARD, started, moved)
        return Gradients(grad_input=grad_input, grad_weight=grad_weight, grad_bias=grad_bias)

    def _convolution(self) -> Convolution:
        operands = (self._images, self._parameters.weight, self._parameters.bias)
        return _convolution(self._layer, *operands, output=self._output)

    def _call_of_gradients(self) -> ConvolutionBackward:
        stride, kernels = self._layer.stride, self._layer.channels[1]
        return ConvolutionBackward(
            grad_output=self._grad_output,
            input=self._images,
            weight=self._parameters.weight,
            bias_sizes=[kernels],
            stride=[stride, stride],
            padding=[1, 1],
            dilation=[1, 1],
            transposed=False,
            output_padding=[0, 0],
            groups=1,
            output_mask=[self._layer.needs_grad_input, True, True],
            cube_math_type=CubeMathType.KEEP_DTYPE,
            grad_input=self._grad_input,
            grad_weight=self._gradients.weight,
            grad_bias=self._gradients.bias,
        )


def _convolution(
    layer: Layer,
    images: Array | Tensor,
    weight: Array | Tensor,
    bias: Array | Tensor,
    *,
    output: Tensor | None = None,
) -> Convolution:
    return Convolution(
        input=images,
        weight=weight,
        bias=bias,
        stride=[layer.stride, layer.stride],
        padding=[1, 1],
        dilation=[1, 1],
        transposed=False,
        output_padding=[0, 0],
        groups=1,
        output=output,
        cube_math_type=CubeMathType.KEEP_DTYPE,
    )


class _Parameters:
    """A weight and a bias, one behind the other in a buffer: one command moves both."""

    def __init__(self, session: Session, shape: tuple[int, ...]) -> None:
        self._size = prod(shape)
        self._size_bytes = 4 * (self._size + shape[0])
        buffer = session.allocate(self._size_bytes)
        self._buffer = buffer.handle
        self.weight = session.tensor(buffer, shape, "float32")
        self.bias = session.tensor(buffer, shape[:1], "float32", offset=self._size)

    def writing(self, weight: Array, bias: Array) -> Command:
        """Returns the command that writes both."""
        data = np.concatenate([weight.ravel(), bias]).tobytes()
        return Command(write=WriteRequest(buffer=self._buffer, data=data))

    def reading(self) -> Command:
        """Returns the command that reads both."""
        return Command(read=ReadRequest(buffer=self._buffer, size_bytes=self._size_bytes))

    def elements(self, result: CommandResult) -> tuple[Array, Array]:
        """Returns both, from the answer to that command."""
        both = np.frombuffer(result.read.data, np.float32)
        return both[: self._size].reshape(self.weight.shape), both[self._size :]


class _Executor:
    """A repeatable executor with its workspace."""

    def __init__(self, session: Session, plan: Plan) -> None:
        plan.executor.set_repeatable()
        workspace = session.allocate(plan.workspace_size).handle if plan.workspace_size else 0
        execute = ExecuteRequest(executor=plan.executor.handle, workspace=workspace)
        synchronize = Command(synchronize_stream=SynchronizeStreamRequest())
        self._session = session
        self._commands = [Command(execute=execute), synchronize]

    def run(
        self, *, before: Command | None = None, behind: Command | None = None
    ) -> list[CommandResult]:
        """Runs the call and waits for its end, with a command on each side, in one round trip."""
        commands = [command for command in (before, *self._commands, behind) if command is not None]
        return self._session.submit(commands)
