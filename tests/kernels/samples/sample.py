"""A sample: a call of an operator with its values and memory layout."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from opserve_kernels.registry import OPERATORS
from opserve_kernels.status import AnyStatus
from opserve_kernels.tensor import DataType, Format, Tensor

Array = NDArray[Any]
Bytes = NDArray[np.uint8]

FILLER = 0xA5  # of every byte that belongs to no element, and of outputs before they are written

NUMPY_DTYPES: Mapping[DataType, np.dtype[Any]] = {
    DataType.FLOAT: np.dtype(np.float32),
    DataType.FLOAT16: np.dtype(np.float16),
    DataType.BF16: np.dtype(ml_dtypes.bfloat16),
    DataType.DOUBLE: np.dtype(np.float64),
    DataType.INT8: np.dtype(np.int8),
    DataType.INT32: np.dtype(np.int32),
}


class Values(Enum):
    """The distribution of the elements of an input."""

    NORMAL = auto()
    INTEGERS = auto()  # -3 .. 3: their sums are exact in float32
    ONES = auto()
    TENTHS = auto()  # 0.1, 1.1, 2.1, ...
    SPECIAL = auto()  # normal, with a few infinities and NaNs
    LARGE = auto()  # normal times 2000: sums leave the range of FLOAT16


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSample:
    """A tensor of a sample.

    Attributes:
        shape: View dimensions.
        dtype: Element type.
        format: Meaning of the dimensions.
        strides: In elements; None means contiguous.
        offset: In elements.
        values: How the elements of an input are drawn.
    """

    shape: tuple[int, ...]
    dtype: DataType = DataType.FLOAT
    format: Format = Format.ND
    strides: tuple[int, ...] | None = None
    offset: int = 0
    values: Values = Values.NORMAL

    def tensor(self, *, buffer: int = 0) -> Tensor:
        """The schema's tensor in a buffer."""
        return Tensor(
            shape=self.shape,
            dtype=self.dtype,
            format=self.format,
            strides=self.strides,
            offset=self.offset,
            buffer=buffer,
        )

    def empty_buffer(self) -> Bytes:
        """A buffer as large as the view needs, and 3 elements more, all FILLER."""
        size = (self.tensor().end + 3) * self.dtype.size_bytes
        return np.full(size, FILLER, dtype=np.uint8)

    def view(self, buffer: Bytes) -> Array:
        """The elements in a buffer, as a NumPy array that shares its memory."""
        elements = buffer.view(NUMPY_DTYPES[self.dtype])
        steps = [step * self.dtype.size_bytes for step in self.tensor().element_strides]
        return np.lib.stride_tricks.as_strided(elements[self.offset :], self.shape, steps)

    def draw(self, seed: int) -> Array:
        """The elements, in the tensor's dtype."""
        generator = np.random.default_rng(seed)
        with np.errstate(over="ignore"):
            return self._drawn(generator).astype(NUMPY_DTYPES[self.dtype])

    def _drawn(self, generator: np.random.Generator) -> Array:
        match self.values:
            case Values.NORMAL:
                return generator.standard_normal(self.shape)
            case Values.INTEGERS:
                return generator.integers(-3, 4, self.shape).astype(np.float64)
            case Values.ONES:
                return np.ones(self.shape)
            case Values.TENTHS:
                return np.arange(np.prod(self.shape)).reshape(self.shape) + 0.1
            case Values.SPECIAL:
                drawn = generator.standard_normal(self.shape)
                places = generator.choice(drawn.size, 3, replace=False)
                drawn.reshape(-1)[places] = (np.inf, -np.inf, np.nan)
                return drawn
            case Values.LARGE:
                return generator.standard_normal(self.shape) * 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A call that must succeed.

    Attributes:
        name: Unique within the operator; also the seed.
        operator: Its name in the registry.
        tensors: By schema field; None is a null pointer.
        scalars: The other arguments, by schema field.
        profile: Of the device that runs it.
    """

    name: str
    operator: str
    tensors: Mapping[str, TensorSample | None]
    scalars: Mapping[str, Any] = field(default_factory=dict[str, Any])
    profile: str = "ascend910b"

    @property
    def inputs(self) -> dict[str, TensorSample]:
        """The tensors that the call reads."""
        return {
            name: tensor
            for name, tensor in self.tensors.items()
            if tensor is not None and name not in OPERATORS[self.operator].outputs
        }

    @property
    def outputs(self) -> dict[str, TensorSample]:
        """The output tensors that were given, masked or not."""
        return {
            name: tensor
            for name, tensor in self.tensors.items()
            if tensor is not None and name in OPERATORS[self.operator].outputs
        }

    @property
    def seed(self) -> int:
        """The seed of the sample's random numbers."""
        return crc32(f"{self.operator}/{self.name}".encode())

    def arrays(self) -> dict[str, Array]:
        """The elements of the inputs, each in its dtype, contiguous."""
        return {
            name: tensor.draw(self.seed + place)
            for place, (name, tensor) in enumerate(self.inputs.items())
        }

    def buffers(self) -> dict[str, Bytes]:
        """Device memory before the call, by tensor: inputs in their layout, all else FILLER."""
        buffers = {
            name: tensor.empty_buffer()
            for name, tensor in self.tensors.items()
            if tensor is not None
        }
        for name, array in self.arrays().items():
            self.inputs[name].view(buffers[name])[...] = array
        return buffers

    def logical(self, buffers: Mapping[str, Bytes]) -> dict[str, Array]:
        """The elements of the inputs as the call sees them: a stride of 0 repeats one of them."""
        return {
            name: np.ascontiguousarray(tensor.view(buffers[name])).reshape(tensor.shape)
            for name, tensor in self.inputs.items()
        }

    def arguments(self, handles: Mapping[str, int] | None = None) -> Any:
        """An instance of the operator's schema.

        Args:
            handles: Buffer handles by tensor field; without them the tensors have no buffer.
        """
        places = handles or {}
        tensors = {
            name: None if tensor is None else tensor.tensor(buffer=places.get(name, 0))
            for name, tensor in self.tensors.items()
        }
        return OPERATORS[self.operator].schema(**tensors, **self.scalars)

    def but(self, name: str, /, **changes: Any) -> "Sample":
        """The same call with other arguments; None is a null pointer.

        Args:
            name: Of the new sample.
            changes: Tensors and scalars by schema field.
        """
        tensors = {**self.tensors, **{k: v for k, v in changes.items() if k in self.tensors}}
        others = {k: v for k, v in changes.items() if k not in self.tensors}
        return replace(self, name=name, tensors=tensors, scalars={**self.scalars, **others})


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSample:
    """A call that must be refused; a row of the error table in the operator's README.

    Attributes:
        rule: That is broken, as the table words it.
        sample: The call. Its tensors may be too large to draw; their buffers are not.
        status: The code it must be refused with.
        parameter: The parameter that must be named.
    """

    rule: str
    sample: Sample
    status: AnyStatus
    parameter: str

    @property
    def name(self) -> str:
        """Unique within the operator."""
        return f"{self.parameter}: {self.rule}"

    def buffers(self) -> dict[str, Bytes]:
        """Device memory large enough for the call's tensors, all FILLER."""
        tensors = self.sample.tensors.items()
        return {name: tensor.empty_buffer() for name, tensor in tensors if tensor is not None}
