"""session.run: one round trip for small calls, nothing left behind, also after an error."""

import ml_dtypes
import numpy as np
import pytest

from client.fake_service import FakeService, refusal
from client.samples import columns, convolution, numbers
from opserve.v1.command_service_pb2 import Command
from opserve.v1.memory_service_pb2 import AllocateRequest, FreeRequest
from opserve_client import (
    AclnnError,
    AclrtError,
    Client,
    Im2colBackward,
    OpserveError,
    ServiceUnreachable,
    Session,
)
from opserve_client.errors import unknown_call
from opserve_client.operators import OperatorCall
from opserve_client.run_batches import _can_be_made
from opserve_client.tensors import TensorSpec, span_bytes
from opserve_client.transports import MemoryTransport
from opserve_kernels.tensor import DataType, Format


def calls_since(fake: FakeService, start: int) -> list[str]:
    return fake.calls[start:]


def test_a_small_call_is_exactly_one_call(session: Session, fake: FakeService) -> None:
    start = len(fake.calls)
    call = convolution()
    result = session.run(call)
    assert calls_since(fake, start) == ["Run"]
    np.testing.assert_array_equal(result.grad_input, call.input)
    np.testing.assert_array_equal(result.grad_weight, call.weight)
    assert result.grad_bias is not None
    assert result.grad_bias.shape == (4,)


def test_a_small_call_leaves_nothing_behind(session: Session, fake: FakeService) -> None:
    session.run(convolution())
    assert fake.buffers == {}
    assert fake.executors == {}


@pytest.mark.parametrize("size", [16384, 16385])
def test_64_kib_in_all_is_the_border_of_one_call(
    session: Session, fake: FakeService, size: int
) -> None:
    start = len(fake.calls)
    half = size // 2
    columns = numbers(1, half)  # 1x1 blocks: the image has as many elements as the columns
    image = Im2colBackward(
        grad_output=columns,
        input_size=[1, size - half],
        kernel_size=[1, 1],
        dilation=[1, 1],
        padding=[0, 0],
        stride=[1, 1],
    )
    session.run(image)
    assert (calls_since(fake, start) == ["Run"]) == (size == 16384)


@pytest.mark.parametrize("workspace_size", [0, 512])
def test_a_large_call_brings_the_same_and_leaves_nothing(
    session: Session, fake: FakeService, workspace_size: int
) -> None:
    fake.workspace_size = workspace_size
    call = convolution(input=numbers(2, 3, 100, 100), grad_output=numbers(2, 4, 100, 100))
    result = session.run(call)
    np.testing.assert_array_equal(result.grad_input, call.input)
    np.testing.assert_array_equal(result.grad_weight, call.weight)
    assert fake.buffers == {}
    assert fake.executors == {}


def test_small_tensors_of_a_large_call_go_with_phase_two(
    session: Session, fake: FakeService
) -> None:
    start = len(fake.calls)
    session.run(convolution(input=numbers(2, 3, 100, 100), grad_output=numbers(2, 4, 100, 100)))
    made = [call for call in calls_since(fake, start) if call in {"Submit", "Write", "Read"}]
    # Input, grad_output and grad_input; not weight, grad_weight and grad_bias.
    assert made == ["Submit", "Write", "Write", "Submit", "Read", "Submit"]


def test_a_large_call_is_planned_before_a_byte_is_sent(session: Session, fake: FakeService) -> None:
    fake.failures["get_workspace_size"] = [refusal(161002, "groups", 3)]
    with pytest.raises(AclnnError, match="161002"):
        session.run(convolution(input=numbers(2, 3, 100, 100)))
    assert "Write" not in fake.calls
    assert fake.buffers == {}


def test_a_call_without_workspace_needs_none(session: Session, fake: FakeService) -> None:
    fake.workspace_size = 0
    call = convolution()
    np.testing.assert_array_equal(session.run(call).grad_input, call.input)
    assert fake.buffers == {}


BOTH = ("allocate", "get_workspace_size", "execute", "synchronize_stream")


@pytest.mark.parametrize("command", [*BOTH, "set_tensor_buffer", "write", "read", "Write", "Read"])
def test_all_memory_is_freed_after_any_failed_command(
    session: Session, fake: FakeService, command: str
) -> None:
    call = convolution(input=numbers(2, 3, 100, 100))
    fake.failures[command] = [refusal(207001, "memory", 1)]
    with pytest.raises(AclrtError) as raised:
        session.run(call)
    assert raised.value.code == 207001
    assert fake.buffers == {}
    assert fake.executors == {}
    fake.failures.clear()
    session.run(call)  # handles are in step


def test_a_cleanup_that_fails_is_noted_on_the_first_error(
    session: Session, fake: FakeService
) -> None:
    fake.failures["execute"] = [refusal(161002, "workspace", 1)]
    fake.failures["free"] = [refusal(107017, "buffer", 1)]
    with pytest.raises(AclnnError) as raised:
        session.run(convolution(input=numbers(2, 3, 100, 100)))
    assert "107017" in raised.value.__notes__[0]


def test_calls_of_one_shape_differ_in_their_handles_and_elements(
    session: Session, fake: FakeService
) -> None:
    kept = session.allocate(4)
    for seed in (1, 2, 3):
        call = convolution(input=numbers(2, 3, 5, 5, seed=seed))
        np.testing.assert_array_equal(session.run(call).grad_input, call.input)
        assert list(fake.buffers) == [kept.handle]
    other = convolution(input=numbers(2, 3, 6, 6), grad_output=numbers(2, 4, 6, 6))
    np.testing.assert_array_equal(session.run(other).grad_input, other.input)
    assert len(session._calls.whole_calls) == 2


def test_a_small_call_whose_answer_was_lost_is_sent_again(
    session: Session, fake: FakeService
) -> None:
    fake.failures["Run"] = [refusal(507901, "connection", "lost")]
    start, call = len(fake.calls), convolution()
    np.testing.assert_array_equal(session.run(call).grad_input, call.input)
    assert calls_since(fake, start) == ["Run", "Run"]


def test_a_service_without_whole_calls_gets_each_call_in_steps(
    session: Session, fake: FakeService
) -> None:
    fake.failures["Run"] = [unknown_call("gRPC UNIMPLEMENTED: Method not found!")]
    start, call = len(fake.calls), convolution()
    for _ in range(2):
        np.testing.assert_array_equal(session.run(call).grad_input, call.input)
    assert calls_since(fake, start).count("Run") == 1
    assert (fake.buffers, fake.executors) == ({}, {})


def test_the_request_of_phase_one_is_built_once_for_a_shape(
    session: Session, fake: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = {
        name: session.upload(getattr(convolution(), name))
        for name in ("grad_output", "input", "weight")
    }
    call = convolution(**tensors)
    first = session.get_workspace_size(call)
    monkeypatch.delattr("opserve_client._sync.session.plain")
    again = session.get_workspace_size(call)
    assert again.executor.handle == first.executor.handle + 1
    assert len(fake.executors) == 2
    with pytest.raises(NameError):
        session.get_workspace_size(convolution(**tensors, groups=True))


def test_a_mask_selects_the_results(session: Session) -> None:
    result = session.run(convolution(output_mask=[False, True, False]))
    assert result.grad_input is None
    assert result.grad_bias is None
    assert result.grad_weight is not None


def test_dtypes_are_promoted_as_designed(session: Session) -> None:
    call = convolution(
        grad_output=numbers(2, 4, 5, 5, dtype=np.float16),
        input=numbers(2, 3, 5, 5, dtype=ml_dtypes.bfloat16),
        weight=numbers(4, 3, 3, 3, dtype=np.float16),
    )
    result = session.run(call)
    assert [array.dtype for array in result if array is not None] == [
        np.float32,
        np.float16,
        np.float16,
    ]


def test_an_output_may_be_chosen_by_a_dtype_an_array_or_a_tensor(session: Session) -> None:
    mine = session.empty((4, 3, 3, 3), "float32")
    call = convolution(
        grad_input="FLOAT16", grad_weight=mine, grad_bias=np.empty(4, ml_dtypes.bfloat16)
    )
    result = session.run(call)
    assert result.grad_input is not None
    assert result.grad_input.dtype == np.float16
    assert result.grad_bias is not None
    assert result.grad_bias.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result.grad_weight, call.weight)
    np.testing.assert_array_equal(mine.download(), call.weight)


def test_inputs_may_be_on_the_device_already(session: Session, fake: FakeService) -> None:
    image = numbers(2, 3, 5, 5, seed=8)
    tensor = session.upload(image)
    result = session.run(convolution(input=tensor))
    np.testing.assert_array_equal(result.grad_input, image)
    assert list(fake.buffers) == [tensor.spec.buffer]


def test_an_empty_tensor_has_a_buffer_all_the_same(session: Session, fake: FakeService) -> None:
    call = convolution(input=np.zeros((0, 3, 5, 5), np.float32))
    result = session.run(call)
    assert result.grad_input is not None
    assert result.grad_input.shape == (0, 3, 5, 5)
    assert fake.buffers == {}


@pytest.mark.parametrize(
    "malformed",
    [
        convolution(grad_output=None),
        convolution(input=None),
        convolution(output_mask=None),
        convolution(output_mask=[True]),
        convolution(output_mask=[]),
        convolution(bias_sizes=None, grad_output=numbers(3)),
        convolution(grad_output=numbers(), input=numbers(1), weight=numbers(1)),
        convolution(groups=-1, stride=[], padding=[1] * 9, cube_math_type=77),
        columns(),
        columns(grad_output=numbers(3), input_size=[1, 1], kernel_size=[1, 1]),
        columns(grad_output=numbers(4, 2), input_size=[-1, 1], kernel_size=[0, 0]),
        columns(grad_output=numbers(4, 2), input_size=[], kernel_size=[2]),
        columns(grad_output=numbers(4, 2), input_size=[2**62, 2**62], kernel_size=[1, 1]),
    ],
)
def test_malformed_arguments_reach_the_service(
    session: Session, fake: FakeService, malformed: OperatorCall[object]
) -> None:
    fake.failures["get_workspace_size"] = [refusal(161002, "anything", 1)]
    with pytest.raises(AclnnError):
        session.run(malformed)
    assert fake.buffers == {}


def test_a_lost_connection_is_reported_as_such(fake: FakeService) -> None:
    lost = [refusal(507901, "connection", "lost") for _ in range(3)]
    fake.failures["Run"] = list(lost)
    client = Client(transport=MemoryTransport(fake), recovery_s=None, sleep=lambda _: None)
    with client, client.open_session() as session, pytest.raises(ServiceUnreachable):
        session.run(convolution())


def test_an_object_that_is_no_call_is_refused_locally(session: Session) -> None:
    with pytest.raises(
        AclnnError, match="call does not accept str; it accepts a call of an operator"
    ):
        session.get_workspace_size("aclnnConvolutionBackward")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_an_array_is_no_argument_of_phase_one(session: Session) -> None:
    with pytest.raises(
        AclnnError, match="grad_output does not accept ndarray; it accepts a tensor"
    ):
        session.get_workspace_size(convolution())


def test_submit_raises_the_error_and_keeps_the_answers_before(session: Session) -> None:
    made, *_ = session.submit([Command(allocate=AllocateRequest(size_bytes=8))])
    assert made.allocate.buffer == session.last_handles.buffer
    commands = [
        Command(free=FreeRequest(buffer=made.allocate.buffer)),
        Command(free=FreeRequest(buffer=made.allocate.buffer)),
    ]
    with pytest.raises(OpserveError) as raised:
        session.submit(commands)
    assert [result.WhichOneof("result") for result in raised.value.results] == ["free"]


@pytest.mark.parametrize(("size_bytes", "can_be"), [(2**63 - 1, True), (2**63, False)])
def test_memory_that_64_bits_cannot_count_is_left_to_the_service_to_refuse(
    size_bytes: int, can_be: bool
) -> None:
    spec = TensorSpec(shape=(size_bytes,), dtype=DataType.INT8, format=Format.ND)
    assert span_bytes(spec) == size_bytes
    assert _can_be_made(spec) is can_be
