"""Convolution gradients by the two-phase protocol: plan once, execute at every step."""

import time
from dataclasses import dataclass, field

from opserve_client import ConvolutionBackward, CubeMathType, Session
from opserve_client.demo.network import Array, Convolution, Gradients


@dataclass(slots=True)
class Traffic:
    """Costs of the calls in the client: seconds of each, and bytes of all."""

    seconds: list[float] = field(default_factory=list[float])
    bytes_moved: int = 0


class RemoteConvolution:
    """The repeatable executor of a layer with its device memory.

    Args:
        session: An open session.
        layer: The convolution.
        batch: Number of images in a step; fixed, as the shapes of an executor are fixed.
        traffic: Counter of calls and bytes.
    """

    def __init__(
        self, session: Session, layer: Convolution, *, batch: int, traffic: Traffic
    ) -> None:
        channels, kernels = layer.channels
        image = (batch, channels, layer.size, layer.size)
        weight = (kernels, channels, 3, 3)
        output = (batch, kernels, layer.output_size, layer.output_size)
        self._traffic = traffic
        self._inputs = (
            session.empty(output, "float32"),
            session.empty(image, "float32"),
            session.empty(weight, "float32"),
        )
        self._grad_input = session.empty(image, "float32") if layer.needs_grad_input else None
        self._grad_weight = session.empty(weight, "float32")
        self._grad_bias = session.empty((kernels,), "float32")
        grad_output, images, weights = self._inputs
        plan = session.get_workspace_size(
            ConvolutionBackward(
                grad_output=grad_output,
                input=images,
                weight=weights,
                bias_sizes=[kernels],
                stride=[layer.stride, layer.stride],
                padding=[1, 1],
                dilation=[1, 1],
                transposed=False,
                output_padding=[0, 0],
                groups=1,
                output_mask=[layer.needs_grad_input, True, True],
                cube_math_type=CubeMathType.KEEP_DTYPE,
                grad_input=self._grad_input,
                grad_weight=self._grad_weight,
                grad_bias=self._grad_bias,
            )
        )
        plan.executor.set_repeatable()
        self._executor = plan.executor
        self._workspace = session.allocate(plan.workspace_size) if plan.workspace_size else None
        self._stream = session.default_stream

    def gradients(self, grad_output: Array, images: Array, weight: Array) -> Gradients:
        """Writes the operands, executes, synchronises and reads the gradients."""
        started = time.perf_counter()
        for tensor, array in zip(self._inputs, (grad_output, images, weight), strict=True):
            tensor.upload(array)
        self._stream.execute(self._executor, self._workspace)
        self._stream.synchronize()
        grads = Gradients(
            grad_input=None if self._grad_input is None else self._grad_input.download(),
            grad_weight=self._grad_weight.download(),
            grad_bias=self._grad_bias.download(),
        )
        self._traffic.seconds.append(time.perf_counter() - started)
        moved = (grad_output, images, weight, *grads.arrays)
        self._traffic.bytes_moved += sum(array.nbytes for array in moved)
        return grads
