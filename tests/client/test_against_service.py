"""The client against a real service, over both APIs and in both forms."""

import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

import ml_dtypes
import numpy as np
import pytest

from client.samples import convolution, numbers
from opserve_client import (
    AclnnError,
    AclrtError,
    AsyncClient,
    Client,
    ConvolutionBackward,
    DocumentedRuleWarning,
    Im2colBackward,
    Session,
)

pytestmark = pytest.mark.system
PLANES = {
    "grad_output": np.ones((2, 2, 7, 1), np.float32),
    "input": np.ones((2, 2, 7, 1), np.float32),
    "weight": np.ones((2, 2, 1, 1), np.float32),
}
ONE_AXIS: dict[str, Any] = {
    "bias_sizes": [2],
    "stride": [1],
    "padding": [0],
    "dilation": [1],
    "output_padding": [0],
}


class Service(Protocol):
    """Addresses of the fixture's service."""

    grpc: str
    rest: str


@pytest.fixture(params=["grpc", "rest"])
def address(request: pytest.FixtureRequest, service: Service) -> str:
    address: str = getattr(service, request.param)
    return address


@pytest.fixture
def live(address: str) -> Iterator[Session]:
    with Client(address) as client, client.open_session("ascend910b") as session:
        yield session


@pytest.fixture
async def live_client(address: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(address) as client:
        yield client


def ones() -> ConvolutionBackward:
    """The vendor's 2-D sample: all ones, 1x1 kernel; grad_input 2, grad_weight and grad_bias 98."""
    return convolution(
        grad_output=np.ones((2, 2, 7, 7), np.float32),
        input=np.ones((2, 2, 7, 7), np.float32),
        weight=np.ones((2, 2, 1, 1), np.float32),
        bias_sizes=[2],
        padding=[0, 0],
    )


def test_the_vendors_sample_in_one_call(live: Session) -> None:
    result = live.run(ones())
    for array, value in zip(result, (2, 98, 98), strict=True):
        np.testing.assert_array_equal(array, np.full_like(array, value))


def test_the_vendors_sample_in_two_phases(live: Session) -> None:
    sample = ones()
    outputs = [live.empty(s, "float32") for s in ((2, 2, 7, 7), (2, 2, 1, 1), (2,))]
    call = convolution(
        grad_output=live.upload(np.asarray(sample.grad_output)),
        input=live.upload(np.asarray(sample.input)),
        weight=live.upload(np.asarray(sample.weight)),
        bias_sizes=[2],
        padding=[0, 0],
        grad_input=outputs[0],
        grad_weight=outputs[1],
        grad_bias=outputs[2],
    )
    plan = live.get_workspace_size(call)
    workspace = live.allocate(plan.workspace_size) if plan.workspace_size else None
    stream = live.create_stream()
    start, end = live.create_event(), live.create_event()
    plan.executor.set_repeatable()
    start.record(stream)
    for _ in range(2):
        stream.execute(plan.executor, workspace)
    end.record(stream)
    stream.synchronize()
    assert stream.query()
    assert end.elapsed_ms_since(start) >= 0
    for tensor, value in zip(outputs, (2, 98, 98), strict=True):
        np.testing.assert_array_equal(tensor.download(), np.full(tensor.shape, value))
    plan.executor.destroy()
    stream.destroy()


def test_a_call_in_steps_equals_the_call_at_once_image_by_image(live: Session) -> None:
    dy, x = numbers(16, 4, 32, 32), numbers(16, 3, 32, 32)
    whole = live.run(convolution(grad_output=dy, input=x))
    for n in range(16):
        one = live.run(convolution(grad_output=dy[n : n + 1], input=x[n : n + 1]))
        assert whole.grad_input is not None
        np.testing.assert_array_equal(whole.grad_input[n : n + 1], one.grad_input)


def test_im2col_backward_of_the_vendors_sample(live: Session) -> None:
    result = live.run(
        Im2colBackward(
            grad_output=(np.arange(8, dtype=np.float32) + np.float32(0.1)).reshape(4, 2),
            input_size=[1, 1],
            kernel_size=[2, 2],
            dilation=[1, 1],
            padding=[1, 1],
            stride=[1, 2],
        )
    )
    assert result.out is not None
    assert result.out.shape == (1, 1, 1)
    assert result.out.item() == pytest.approx(9.2, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_half_precision_survives_a_round_trip(live: Session, dtype: "type[np.generic]") -> None:
    arrays = {
        name: np.ones(shape, dtype)
        for name, shape in (("grad_output", (2, 2, 7, 7)), ("input", (2, 2, 7, 7)))
    }
    weight = np.ones((2, 2, 1, 1), dtype)
    result = live.run(convolution(**arrays, weight=weight, bias_sizes=[2], padding=[0, 0]))
    assert result.grad_weight is not None
    assert result.grad_weight.dtype == dtype
    np.testing.assert_array_equal(result.grad_weight.astype(float), 98)


@pytest.mark.parametrize(
    ("change", "code", "parameter"),
    [
        ({"grad_output": None}, 161001, "grad_output"),
        ({"output_mask": None}, 161001, "output_mask"),
        ({"cube_math_type": 9}, 161002, "cube_math_type"),
        ({"groups": 0}, 161002, "groups"),
        ({"stride": [1]}, 161002, "stride"),
    ],
)
def test_broken_rules_are_refused_and_nothing_is_left(
    live: Session, change: dict[str, Any], code: int, parameter: str
) -> None:
    with pytest.raises(AclnnError) as raised:
        live.run(convolution(**change))
    assert (raised.value.code, raised.value.parameter) == (code, parameter)
    live.run(convolution())


def test_a_freed_buffer_does_not_exist(live: Session) -> None:
    buffer = live.allocate(8)
    buffer.free()
    with pytest.raises(AclrtError) as raised:
        buffer.read()
    assert raised.value.code == 107017


@pytest.mark.parametrize("transport", ["mapped", "streams"])
def test_bulk_bytes_are_intact(live: Session, transport: str) -> None:
    if transport == "streams":
        live._calls.forget()
    array = np.random.default_rng(5).integers(0, 255, 3 * 2**20 + 17, np.uint8)
    tensor = live.upload(array)
    np.testing.assert_array_equal(tensor.download(), array)
    other = live.empty(array.shape, "uint8")
    assert other.buffer is not None
    assert tensor.buffer is not None
    other.buffer.fill(7)
    other.buffer.copy_from(tensor.buffer, size_bytes=1000)
    expected = np.concatenate([array[:1000], np.full(array.size - 1000, 7, np.uint8)])
    np.testing.assert_array_equal(other.download(), expected)


def test_a_mapped_buffer_and_its_session_see_the_same_bytes(live: Session) -> None:
    buffer = live.allocate(10)
    view = buffer.map()
    view[:] = range(10)
    assert buffer.read() == bytes(range(10))
    buffer.fill(7, offset=2, size_bytes=3)
    assert bytes(view) == bytes([0, 1, 7, 7, 7, 5, 6, 7, 8, 9])
    buffer.free()
    with pytest.raises(AclrtError, match="107017"):
        buffer.map()


def test_a_large_range_that_leaves_its_buffer_is_refused(live: Session) -> None:
    buffer = live.allocate(2**20)
    for start, size in ((1, 2**20), (2**20, 2**17), (2**40, 2**40)):
        with pytest.raises(AclrtError, match="107000"):
            buffer.read(offset=start, size_bytes=size)
    with pytest.raises(AclrtError, match="107000"):
        buffer.write(bytes(2**20), offset=1)


async def test_the_asyncio_client_maps_and_copies_as_well(live_client: AsyncClient) -> None:
    async with live_client.open_session() as session:
        array = np.random.default_rng(6).integers(0, 255, 2**20 + 3, np.uint8)
        buffer = await session.allocate(array.size)
        await buffer.write(array)
        np.testing.assert_array_equal(await buffer.map(), array)
        assert await buffer.read(offset=5) == array[5:].tobytes()
        other = await session.allocate(array.size)
        await other.copy_from(buffer)
        assert await other.read() == array.tobytes()


def test_a_range_that_leaves_its_buffer_is_refused(live: Session) -> None:
    buffer = live.allocate(8)
    with pytest.raises(AclrtError) as raised:
        buffer.read(offset=4, size_bytes=5)
    assert raised.value.code == 107000
    with pytest.raises(AclrtError) as raised:
        buffer.write(b"123456789")
    assert raised.value.code == 107000


async def test_the_asyncio_client_agrees(live_client: AsyncClient) -> None:
    async with live_client.open_session() as session:
        result = await session.run(ones())
        for array, value in zip(result, (2, 98, 98), strict=True):
            np.testing.assert_array_equal(array, np.full_like(array, value))


def test_an_unknown_profile_is_refused_by_name(address: str) -> None:
    with Client(address) as client, pytest.raises(AclrtError) as raised:
        client.open_session("ascend950")
    assert raised.value.code == 107001


def test_a_closed_session_does_not_exist(address: str) -> None:
    with Client(address) as client:
        session = client.open_session()
        session.close()
        with pytest.raises(AclrtError) as raised:
            session.allocate(8)
    assert raised.value.code == 107017


def folding(columns: Any, out: Any = None) -> Im2colBackward:
    """Columns of ones, summed into 3 x 3 images of one channel."""
    return Im2colBackward(
        grad_output=columns,
        input_size=[3, 3],
        kernel_size=[2, 2],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
        out=out,
    )


def test_no_call_gets_a_warning_about_a_format_that_it_did_not_name(live: Session) -> None:
    columns = np.ones((2, 4, 4), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (expected,) = live.run(folding(columns))
        (found,) = live.run(folding(live.upload(columns)))
        np.testing.assert_array_equal(found, expected)
        out = live.empty((2, 1, 3, 3), "float32")
        assert not live.get_workspace_size(folding(live.upload(columns), out)).warnings
        live.run(convolution(**{name: value[..., 0] for name, value in PLANES.items()}, **ONE_AXIS))
        uploaded = {name: live.upload(value[..., 0]) for name, value in PLANES.items()}
        live.run(convolution(**uploaded, **ONE_AXIS))


def test_a_format_that_the_caller_named_is_warned_of(live: Session) -> None:
    columns = live.upload(np.ones((2, 4, 4), np.float32), format="NCL")
    with pytest.warns(DocumentedRuleWarning, match="grad_output"):
        live.run(folding(columns))


def test_an_entry_has_the_same_bytes_alone_at_the_level_batch(live: Session) -> None:
    live.set_deterministic_level("batch")
    columns = numbers(3, 4, 4)
    (images,) = live.run(folding(columns))
    assert images is not None
    for entry, image in enumerate(images):
        (alone,) = live.run(folding(columns[entry : entry + 1]))
        assert alone is not None
        assert alone.tobytes() == image.tobytes()
