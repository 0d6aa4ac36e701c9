"""Arrays of other libraries, lists and numbers where the SDK takes an array."""

import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from client.fake_service import FakeService
from client.samples import Array, columns, convolution, numbers
from opserve_client import AclnnError, AclrtError, OpserveError, Session
from opserve_client.array_files import plain
from opserve_client.tbe.tensors import Placeholders
from opserve_kernels.array_like import as_array

KNOWN = "FLOAT, FLOAT16, INT8, INT32, UINT8, INT16, UINT16, UINT32, INT64, UINT64, DOUBLE, BOOL"
ONES = {"input_size": [1, 1], "kernel_size": [1, 1], "dilation": 1, "padding": 0, "stride": 1}


class OfLibrary:
    """An array that NumPy reads by `__array__`."""

    def __init__(self, elements: Array) -> None:
        self._elements = elements

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._elements, dtype=dtype, copy=copy)


class Exported:
    """An array that only exports DLPack."""

    def __init__(self, elements: Array) -> None:
        self._elements = elements

    def __dlpack__(self, **options: Any) -> object:
        return self._elements.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class OnGpu:
    """An array that exports DLPack outside host memory."""

    def __dlpack__(self, **_: Any) -> object:
        raise BufferError("the array is on device 2")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


WAYS = [OfLibrary, Exported, np.ndarray.tolist]


@pytest.mark.parametrize("way", WAYS)
def test_any_array_is_an_argument_of_a_call(session: Session, way: Any) -> None:
    image = numbers(1, 1, dtype=np.float64)
    result = session.run(columns(grad_output=way(image), **ONES))
    np.testing.assert_array_equal(result.out.reshape(image.shape), image)
    chosen = session.run(columns(grad_output=image, out=way(np.zeros((1, 1, 1))), **ONES))
    assert chosen.out.shape == (1, 1, 1)


@pytest.mark.parametrize("way", WAYS)
def test_any_array_is_uploaded(session: Session, way: Any) -> None:
    elements = numbers(2, 3, dtype=np.float64)
    tensor = session.upload(way(elements))
    np.testing.assert_array_equal(tensor.download(), elements)
    tensor.upload(way(elements + 1))
    np.testing.assert_array_equal(tensor.download(), elements + 1)


def test_a_number_is_a_tensor_without_dimensions(session: Session) -> None:
    tensor = session.upload(1.5)
    assert (tensor.shape, tensor.download().tolist()) == ((), 1.5)


@pytest.mark.parametrize("way", [OfLibrary, Exported])
def test_any_array_is_written_to_a_buffer(session: Session, way: Any) -> None:
    elements = numbers(2, 3)
    buffer = session.allocate(elements.nbytes)
    buffer.write(way(elements))
    assert buffer.read() == elements.tobytes()


@pytest.mark.parametrize("way", WAYS)
def test_any_array_is_an_output_to_verify_and_data_of_a_placeholder(way: Any) -> None:
    elements = numbers(2, 3, dtype=np.float64)
    np.testing.assert_array_equal(plain({"out": way(elements)})["out"], elements)
    data = Placeholders(data={"x": way(elements)})
    np.testing.assert_array_equal(data.placeholder((2, 3), "float64", "x").numpy(), elements)


@pytest.mark.parametrize(
    ("wrong", "given"),
    [
        (np.ones((1, 1), np.complex64), "complex64"),
        (np.full((1, 1), None), "object"),
        ([[1j]], "complex128"),
        (OfLibrary(np.ones((1, 1), np.complex64)), "complex64"),
    ],
)
def test_elements_that_opserve_does_not_have_are_rejected_by_the_arguments_name(
    session: Session, fake: FakeService, wrong: Any, given: str
) -> None:
    before = list(fake.calls)
    uses: dict[str, Any] = {
        "grad_output": lambda: session.run(columns(grad_output=wrong, **ONES)),
        "weight": lambda: session.run(convolution(weight=wrong)),
        "grad_input": lambda: session.run(convolution(grad_input=wrong)),
        "array": lambda: session.upload(wrong),
        "out": lambda: plain({"out": wrong}),
    }
    for name, use in uses.items():
        with pytest.raises(
            AclnnError, match=f"{name} does not accept {given}; it accepts {KNOWN}, BF16"
        ):
            use()
    assert fake.calls == before


def test_an_array_of_objects_has_no_bytes(session: Session) -> None:
    with pytest.raises(
        AclrtError, match=r"data does not accept .* contiguous bytes or an array of numbers"
    ):
        session.allocate(8).write(np.full(1, None))


def test_an_array_outside_host_memory_is_rejected_with_the_reason(session: Session) -> None:
    message = (
        r"array does not accept OnGpu \(the array is on device 2\); it accepts an array .* CPU"
    )
    with pytest.raises(AclnnError, match=message):
        session.upload(OnGpu())


class FakeTensor:
    """A tensor of a fake `torch`, whose BF16 elements NumPy cannot read."""

    def __init__(self, bits: Array, dtype: str, *, requires_grad: bool = False) -> None:
        self.bits, self.dtype, self.requires_grad = bits, dtype, requires_grad

    def view(self, dtype: str) -> "FakeTensor":
        return FakeTensor(self.bits, dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.requires_grad:
            raise RuntimeError("Use tensor.detach().numpy() instead.")
        if self.dtype == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return np.array(self.bits, dtype=dtype, copy=copy)


def test_bf16_tensors_of_torch_are_read_by_their_bits(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = SimpleNamespace(Tensor=FakeTensor, bfloat16="bfloat16", int16="int16")
    monkeypatch.setitem(sys.modules, "torch", torch)  # pyright: ignore[reportArgumentType]
    elements = numbers(2, 3, dtype=ml_dtypes.bfloat16)
    tensor: Any = FakeTensor(elements.view(np.int16), "bfloat16")
    np.testing.assert_array_equal(session.upload(tensor).download(), elements)
    tensor.requires_grad = True
    with pytest.raises(
        OpserveError, match=r"array does not accept FakeTensor \(Use tensor\.detach\(\)"
    ):
        session.upload(tensor)


@pytest.mark.torch
def test_tensors_of_pytorch_are_arrays() -> None:
    torch: Any = import_module("torch")
    single = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    for tensor in (single, single.double(), single.half(), single.T):
        given = as_array(tensor)
        assert str(given.dtype) == str(tensor.dtype).removeprefix("torch.")
        np.testing.assert_array_equal(given, tensor.numpy())
    for tensor in (single.bfloat16(), single.bfloat16().T):
        given = as_array(tensor)
        assert given.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(given.astype(np.float32), tensor.float().numpy())
    for dtype in (torch.float32, torch.bfloat16):
        with pytest.raises(TypeError, match=r"Tensor \(.*detach"):
            as_array(torch.ones(2, dtype=dtype, requires_grad=True))
