"""offload against a service: PyTorch's own results are the truth, and calls must have been sent."""

from collections.abc import Callable, Iterator
from importlib import import_module
from threading import Thread
from typing import Any

import pytest

from absent import has_torch
from opserve_client import AclnnError, AclrtError, Client
from opserve_client.private_service import Addresses
from opserve_client.torch import Reason, offload

pytestmark = [
    pytest.mark.system,
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::opserve_client.DocumentedRuleWarning"),
]
torch: Any = import_module("torch") if has_torch() else None
Tensor = Any
FORWARD, BACKWARD = "convolution", "convolution_backward"
TOLERANCES = {"float16": (2e-2, 2e-3), "bfloat16": (6e-2, 2e-2), "float32": (1e-4, 1e-5)}
LAYERS: dict[str, tuple[tuple[tuple[int, ...], ...], dict[str, Any]]] = {
    "conv1d": (((2, 4, 9), (6, 2, 3)), {"stride": 2, "padding": 1, "groups": 2}),
    "conv2d": (((2, 4, 9, 8), (6, 2, 3, 2)), {"stride": (2, 1), "padding": 1, "groups": 2}),
    "conv3d": (((2, 4, 5, 6, 5), (6, 4, 2, 3, 1)), {"dilation": 2}),
    "conv_transpose1d": (((2, 4, 9), (4, 3, 3)), {"stride": 2, "output_padding": 1}),
    "conv_transpose2d": (((2, 4, 5, 6), (4, 3, 3, 2)), {"stride": (1, 2), "groups": 2}),
    "conv_transpose3d": (((1, 4, 3, 4, 3), (4, 3, 2, 3, 2)), {"stride": 2, "padding": 1}),
}


@pytest.fixture
def client(service: Addresses) -> Iterator[Client]:
    with Client(service.grpc) as client:
        yield client


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(7)


def drawn(*shape: int, dtype: str = "float32") -> Tensor:
    return torch.randn(shape, dtype=getattr(torch, dtype), requires_grad=True)


def conv2d(*operands: Tensor) -> Tensor:
    return torch.nn.functional.conv2d(*operands, padding=1)


def with_gradients(function: Callable[..., Tensor], *operands: Tensor) -> list[Tensor]:
    """The result of a function, and the gradients of the sum of its squares."""
    result = function(*operands)
    return [result, *torch.autograd.grad((result**2).sum(), operands)]


def check_close(given: list[Tensor], right: list[Tensor], dtype: str = "float32") -> None:
    relative, absolute = TOLERANCES[dtype]
    for one, other in zip(given, right, strict=True):
        assert one.shape == other.shape
        wide, scale = other.double(), absolute * (1 + other.abs().max().item())
        torch.testing.assert_close(one.double(), wide, rtol=relative, atol=scale)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("has_bias", [True, False])
def test_convolutions_and_their_gradients_are_those_of_pytorch_in_float64(
    client: Client, name: str, dtype: str, *, has_bias: bool
) -> None:
    shapes, attributes = LAYERS[name]
    groups = attributes.get("groups", 1)
    channels = shapes[1][1] * groups if "transpose" in name else shapes[1][0]
    operands = [drawn(*shape, dtype=dtype) for shape in shapes]
    operands += [drawn(channels, dtype=dtype)] if has_bias else []

    def layer(*given: Tensor) -> Tensor:
        return getattr(torch.nn.functional, name)(*given, **attributes)

    right = with_gradients(layer, *(one.detach().double().requires_grad_() for one in operands))
    with offload(client) as calls:
        found = with_gradients(layer, *operands)

    assert dict(calls.offloaded) == {FORWARD: 1, BACKWARD: 1}
    assert not calls.not_offloaded
    assert {str(one.dtype) for one in found} == {f"torch.{dtype}"}
    check_close(found, right, dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_unfold_and_fold_are_those_of_pytorch(client: Client, dtype: str) -> None:
    image = drawn(2, 3, 6, 5, dtype=dtype)
    attributes = {"kernel_size": (2, 3), "padding": 1, "stride": (2, 1)}

    def unfold_and_fold(given: Tensor) -> Tensor:
        columns = torch.nn.functional.unfold(given, **attributes)
        return torch.nn.functional.fold(columns, (6, 5), **attributes)

    right = with_gradients(unfold_and_fold, image.detach().double().requires_grad_())
    with offload(client) as calls:
        found = with_gradients(unfold_and_fold, image)

    assert dict(calls.offloaded) == {"im2col": 2, "col2im": 2}
    check_close(found, right, dtype)


def test_float64_is_computed_in_float64_on_the_profile_reference(client: Client) -> None:
    operands = [drawn(2, 3, 6, 6, dtype="float64"), drawn(4, 3, 3, 3, dtype="float64")]
    right = with_gradients(conv2d, *operands)
    with offload(client, cube_math_type=2) as calls:  # USE_FP16 is for the other dtypes
        found = with_gradients(conv2d, *operands)
        (sessions,) = [one.sessions for one in client.list_devices() if one.profile == "reference"]
    assert dict(calls.offloaded) == {FORWARD: 1, BACKWARD: 1}
    assert sessions >= 1
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_a_module_has_gradients_for_what_requires_them_alone(client: Client) -> None:
    layer, image = torch.nn.Conv2d(3, 4, 3), torch.randn(2, 3, 6, 6)
    layer.bias.requires_grad_(requires_grad=False)
    with offload(client) as calls:
        layer(image).sum().backward()
    assert calls.offloaded[BACKWARD] == 1
    assert layer.bias.grad is None
    found, layer.weight.grad = layer.weight.grad, None
    layer(image).sum().backward()
    check_close([found], [layer.weight.grad])


def test_an_attribute_of_one_entry_counts_for_all_dimensions(client: Client) -> None:
    given = drawn(2, 3, 8, 8).detach(), drawn(4, 3, 3, 3).detach(), None
    right = torch.ops.aten.convolution(*given, [2, 2], [1, 1], [1, 1], False, [0, 0], 1)  # noqa: FBT003
    with offload(client) as calls:
        found = torch.ops.aten.convolution(*given, [2], [1], [1], False, [0], 1)  # noqa: FBT003
    assert calls.offloaded.total() == 1
    check_close([found], [right])


def unfold(image: Tensor) -> Tensor:
    return torch.nn.functional.unfold(image, (2, 2))


def in_a_subclass(image: Tensor) -> Tensor:
    class Named(torch.Tensor):  # type: ignore[misc]  # of Any
        __torch_function__ = torch._C._disabled_torch_function_impl

    return unfold(image.as_subclass(Named)).as_subclass(torch.Tensor)


OTHERS: dict[Reason, Callable[[], Tensor]] = {
    Reason.COMPLEX: lambda: unfold(torch.randn(1, 3, 4, 4, dtype=torch.complex64)),
    Reason.DTYPE: lambda: unfold(torch.eye(4, dtype=torch.bool).expand(1, 3, 4, 4)),
    Reason.EMPTY: lambda: conv2d(torch.randn(0, 3, 4, 4), torch.randn(2, 3, 3, 3)),
    Reason.SUBCLASS: lambda: in_a_subclass(torch.randn(1, 3, 4, 4)),
}


@pytest.mark.parametrize("reason", OTHERS)
def test_other_calls_go_to_pytorch_and_are_counted_by_reason(
    client: Client, reason: Reason
) -> None:
    torch.manual_seed(7)
    right = OTHERS[reason]()
    torch.manual_seed(7)
    with offload(client) as calls:
        found = OTHERS[reason]()
    assert torch.equal(found, right)
    assert not calls.offloaded
    assert dict(calls.not_offloaded) == {reason: 1}


def test_a_complex_convolution_is_three_real_ones(client: Client) -> None:
    shapes = (2, 3, 5, 5), (4, 3, 3, 3)
    operands = [torch.randn(shape, dtype=torch.complex128) for shape in shapes]
    right = conv2d(*operands)
    with offload(client) as calls:
        found = conv2d(*operands)
    assert dict(calls.offloaded) == {FORWARD: 3}
    torch.testing.assert_close(found, right)


@pytest.mark.parametrize(
    ("shapes", "dtypes"),
    [
        (((1, 2, 2, 2), (2, 2, 3, 3)), ("float32", "float32")),  # a kernel beyond the image
        (((1, 2, 4, 4), (2, 3, 3, 3)), ("float32", "float32")),  # other channels
        (((1, 2, 4, 4), (2, 2, 3, 3)), ("float32", "float64")),
    ],
)
def test_what_pytorch_rejects_raises_its_own_error(
    client: Client, shapes: tuple[tuple[int, ...], ...], dtypes: tuple[str, ...]
) -> None:
    operands = [drawn(*shape, dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    with pytest.raises(RuntimeError) as right:
        torch.nn.functional.conv2d(*operands)
    with offload(client) as calls, pytest.raises(RuntimeError) as found:
        torch.nn.functional.conv2d(*operands)
    assert str(found.value) == str(right.value)
    assert not calls.offloaded


def test_a_refused_call_is_an_error_or_goes_to_pytorch(client: Client) -> None:
    operands = drawn(1, 3, 4, 4), drawn(2, 3, 3, 3)
    right = conv2d(*operands)
    # FLOAT needs ALLOW_FP32_DOWN_PRECISION on this product.
    with offload(client, profile="ascend910") as calls, pytest.raises(AclnnError, match="161002"):
        conv2d(*operands)
    assert dict(calls.not_offloaded) == {Reason.REJECTED: 1}
    with offload(client, profile="ascend910", on_refusal="original") as calls:
        assert torch.equal(conv2d(*operands), right)
    assert dict(calls.not_offloaded) == {Reason.REJECTED: 1}
    with offload(client, profile="ascend910", cube_math_type=1) as calls:
        check_close([conv2d(*operands)], [right], "float16")
    assert dict(calls.offloaded) == {FORWARD: 1}


def test_the_end_of_the_block_restores_pytorch_and_closes_the_sessions(client: Client) -> None:
    operands = drawn(1, 3, 4, 4), drawn(2, 3, 3, 3)
    right = conv2d(*operands)
    before = sum(device.sessions for device in client.list_devices())
    with pytest.raises(ZeroDivisionError), offload(client) as calls:
        raise ZeroDivisionError(conv2d(*operands))
    assert torch.equal(conv2d(*operands), right)
    assert calls.offloaded.total() == 1
    assert sum(device.sessions for device in client.list_devices()) == before
    with offload(client) as again:
        conv2d(*operands)
    assert again.offloaded.total() == 1


def test_a_block_within_another_is_rejected(client: Client) -> None:
    with offload(client) as calls:
        with pytest.raises(AclrtError, match="one block at a time"), offload(client):
            pass
        conv2d(drawn(1, 3, 4, 4), drawn(2, 3, 3, 3))
    assert calls.offloaded.total() == 1


def test_a_wrong_argument_replaces_nothing(client: Client) -> None:
    wrong: Any = "torch"
    with pytest.raises(AclrtError), offload(client, on_refusal=wrong):
        pass
    with pytest.raises(AclrtError), offload(client, profile="none"):
        pass
    with offload(client):
        pass


def test_backward_runs_in_any_thread_and_threads_share_the_block(client: Client) -> None:
    operands = [(drawn(2, 3, 6, 6), drawn(4, 3, 3, 3)) for _ in range(8)]
    right = [with_gradients(conv2d, *pair) for pair in operands]
    found: dict[int, list[Tensor]] = {}

    def work(index: int) -> None:
        found[index] = with_gradients(conv2d, *operands[index])

    with offload(client) as calls:
        threads = [Thread(target=work, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert dict(calls.offloaded) == {FORWARD: 8, BACKWARD: 8}
    for index, pair in enumerate(right):
        check_close(found[index], pair)


@pytest.mark.parametrize(
    ("operand", "name", "shapes"),
    [
        *((operand, "conv2d", ((2, 3, 6, 6), (4, 3, 3, 3))) for operand in (0, 1)),
        *((operand, "conv3d", ((2, 3, 4, 6, 6), (4, 3, 3, 3, 3))) for operand in (0, 1)),
    ],
)
def test_results_have_their_channels_last_where_an_operand_has(
    client: Client, operand: int, name: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    layer = getattr(torch.nn.functional, name)
    format_ = torch.channels_last if name == "conv2d" else torch.channels_last_3d
    operands = [torch.randn(shape) for shape in shapes]
    operands[operand] = operands[operand].contiguous(memory_format=format_)
    operands = [one.requires_grad_() for one in operands]
    right = with_gradients(layer, *operands)
    with offload(client) as calls:
        found = with_gradients(layer, *operands)
    assert calls.offloaded.total() == 2
    assert [one.is_contiguous(memory_format=format_) for one in found] == [True] * 3
    check_close(found, right)


def test_vmap_of_grad_gives_the_gradients_of_each_sample(client: Client) -> None:
    weight, images = drawn(4, 3, 3, 3).detach(), drawn(5, 3, 6, 6).detach()

    def loss(given: Tensor, image: Tensor) -> Tensor:
        return (conv2d(image[None], given) ** 2).sum()

    per_sample = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))
    right = per_sample(weight, images)
    with offload(client) as calls:
        found = per_sample(weight, images)
    assert calls.offloaded[FORWARD]
    assert calls.offloaded[BACKWARD]
    check_close([found], [right])


def test_a_compiled_module_calls_the_service(client: Client) -> None:
    layer, image = torch.nn.Conv2d(3, 4, 3, padding=1), drawn(2, 3, 6, 6)
    right = with_gradients(layer, image)
    compiled = torch.compile(layer, backend="aot_eager")
    with offload(client) as calls:
        found = with_gradients(compiled, image)
    assert dict(calls.offloaded) == {FORWARD: 1, BACKWARD: 1}
    check_close(found, right)
    torch.compiler.reset()


def test_gradcheck_and_gradgradcheck_pass(client: Client) -> None:
    operands = [drawn(*shape, dtype="float64") for shape in ((1, 2, 3, 3), (2, 2, 2, 2), (2,))]
    with offload(client) as calls:
        assert torch.autograd.gradcheck(torch.nn.functional.conv2d, operands)
        assert torch.autograd.gradgradcheck(torch.nn.functional.conv2d, operands)
    assert calls.offloaded[FORWARD] > 50
    assert calls.offloaded[BACKWARD] > 5


def test_autocast_sends_16_bits(client: Client) -> None:
    operands = drawn(2, 3, 6, 6), drawn(4, 3, 3, 3)
    right = with_gradients(conv2d, *operands)
    with offload(client) as calls, torch.autocast("cpu", torch.bfloat16):
        found = with_gradients(conv2d, *operands)
    assert dict(calls.offloaded) == {FORWARD: 1, BACKWARD: 1}
    assert [one.dtype for one in found] == [torch.bfloat16, torch.float32, torch.float32]
    check_close(found, right, "bfloat16")
