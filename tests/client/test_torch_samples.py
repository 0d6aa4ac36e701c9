"""PyTorch's own samples of convolutions, unfold and fold, forward and backward on a service.

The truth is PyTorch's result in 64 bits: its own sums of 16 bits are rounded several times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from absent import has_torch
from opserve_client import Client
from opserve_client.private_service import Addresses
from opserve_client.torch import Offload, Reason, offload

pytestmark = [
    pytest.mark.system,
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::opserve_client.DocumentedRuleWarning"),
    pytest.mark.filterwarnings("ignore:Using padding='same'"),  # PyTorch's, once a process
]
torch: Any = import_module("torch") if has_torch() else None
Tensor = Any
FOLD = "nn.functional.fold"
NAMES = (
    *(f"nn.functional.conv{rank}d" for rank in (1, 2, 3)),
    *(f"nn.functional.conv_transpose{rank}d" for rank in (1, 2, 3)),
    "nn.functional.unfold",
    FOLD,
)
WIDE = {"complex64": "complex128", "complex128": "complex128"}
"""The dtype of the truth; float64 for others."""
_STEPS = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1}
TOLERANCES = {"float32": 1e-5, "complex64": 1e-5, "float16": 1e-3, "bfloat16": 8e-3}
"""Errors as shares of the greatest element: sums in float32, one rounding to 16 bits."""


@dataclass(frozen=True)
class Sample:
    name: str
    function: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


@pytest.fixture
def client(service: Addresses) -> Iterator[Client]:
    with Client(service.grpc) as client:
        yield client


@pytest.mark.parametrize("name", NAMES)
def test_the_samples_of_pytorch_pass_in_float32(client: Client, name: str) -> None:
    calls = check(client, name, "float32")
    assert calls.offloaded.total() > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", "complex64", "complex128"])
def test_the_samples_of_pytorch_pass_in_other_dtypes(client: Client, name: str, dtype: str) -> None:
    calls = check(client, name, dtype)
    assert calls.offloaded.total() > 5 or calls.not_offloaded[Reason.COMPLEX]
    assert set(calls.not_offloaded) <= {Reason.EMPTY, Reason.COMPLEX}


@pytest.mark.parametrize(
    "name", ["nn.functional.conv_transpose2d", "nn.functional.conv_transpose3d"]
)
def test_samples_that_the_vendor_rejects_go_to_pytorch(client: Client, name: str) -> None:
    beyond = [sample for sample in samples(name, "float32") if is_rejected(sample)]
    assert beyond
    with offload(client, on_refusal="original") as calls:
        found = [with_gradients(sample) for sample in beyond]
    assert calls.not_offloaded[Reason.REJECTED] >= len(beyond)
    torch.testing.assert_close(found, [with_gradients(sample) for sample in beyond])


def check(client: Client, name: str, dtype: str) -> Offload:
    """Compares every sample of an operator with the truth; returns the counts."""
    made = [sample for sample in samples(name, dtype) if not is_rejected(sample)]
    truth = [with_gradients(sample, WIDE.get(dtype, "float64")) for sample in made]
    with offload(client) as calls:
        found = [with_gradients(sample) for sample in made]
    for given, right in zip(found, truth, strict=True):
        for one, exact in zip(given, right, strict=True):
            assert one.dtype is getattr(torch, dtype)
            assert one.shape == exact.shape
            if one.numel():
                limit = TOLERANCES.get(dtype, 1e-12) * exact.abs().max()
                assert (one.to(exact.dtype) - exact).abs().max() <= limit
    return calls


def samples(name: str, dtype: str) -> list[Sample]:
    """The samples of an operator; those of fold are of its module, as OpInfo has none."""
    if name == FOLD:
        return folds(dtype)
    opinfo: Any = import_module("torch.testing._internal.common_methods_invocations")
    (found,) = [one for one in opinfo.op_db if one.name == name]
    given = found.sample_inputs("cpu", getattr(torch, dtype), requires_grad=True)
    return [Sample(name, found.op, (one.input, *one.args), one.kwargs) for one in given]


def folds(dtype: str) -> list[Sample]:
    modules: Any = import_module("torch.testing._internal.common_nn")
    given = [one for one in modules.get_new_module_tests() if "Fold" in one.get("fullname", "")]
    kind = {"dtype": getattr(torch, dtype), "requires_grad": True}
    return [
        Sample(FOLD, one["constructor"](), (torch.randn(one["input_size"], **kind),), {})
        for one in given
    ]


def is_rejected(sample: Sample) -> bool:
    """Whether a transposed convolution has values that only PyTorch accepts.

    The vendor's output_padding is below the stride, and in 3-D its padding within the kernel.
    """
    if "transpose" not in sample.name:
        return False
    given = [sample.keywords.get(name, default) for name, default in _STEPS.items()]
    stride, padding, output_padding, dilation = map(np.asarray, given)
    taps = np.asarray(sample.arguments[1].shape[2:])
    too_far = (padding > dilation * (taps - 1)) & (len(taps) == 3)
    return bool(np.any(output_padding >= stride) or too_far.any())


def with_gradients(sample: Sample, dtype: str = "") -> list[Tensor]:
    """The result, and the gradients of its product with one gradient for its elements."""
    arguments = [_as(one, dtype) for one in sample.arguments]
    keywords = {name: _as(one, dtype) for name, one in sample.keywords.items()}
    result = sample.function(*arguments, **keywords)
    given = (*arguments, *keywords.values())
    wanted = [one for one in given if isinstance(one, torch.Tensor) and one.requires_grad]
    # Exact in every dtype, so that the truth has the same one.
    incoming = (torch.arange(result.numel()) % 5 - 2).to(result.dtype).view(result.shape)
    return [result, *torch.autograd.grad(result, wanted, incoming)]


def _as(value: Any, dtype: str) -> Any:
    if not dtype or not isinstance(value, torch.Tensor):
        return value
    return value.detach().to(getattr(torch, dtype)).requires_grad_(value.requires_grad)
