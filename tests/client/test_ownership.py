"""Objects of another session are no objects of this one, though their numbers are the same."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from client.fake_service import FakeService
from client.samples import convolution, numbers
from opserve_client import AclrtError, Client, ConvolutionBackward, Session
from opserve_client.transports import MemoryTransport


class Half:
    """A session with one object of each kind; those of two halves have the same numbers."""

    def __init__(self, session: Session) -> None:
        self.session = session
        arrays = convolution()
        self.call = convolution(
            grad_output=session.upload(np.asarray(arrays.grad_output)),
            input=session.upload(np.asarray(arrays.input)),
            weight=session.upload(np.asarray(arrays.weight)),
            grad_input=session.empty((2, 3, 5, 5), "float32"),
            grad_weight=session.empty((4, 3, 3, 3), "float32"),
            grad_bias=session.empty((4,), "float32"),
        )
        self.buffer = session.allocate(512)
        self.tensor = session.tensor(self.buffer, (4, 3, 3, 3), "float32")
        self.executor = session.get_workspace_size(self.call).executor
        self.stream = session.create_stream()
        self.event = session.create_event()

    def with_weight(self, weight: object) -> ConvolutionBackward:
        call = self.call
        return convolution(
            grad_output=call.grad_output,
            input=call.input,
            weight=weight,
            grad_input=call.grad_input,
            grad_weight=call.grad_weight,
            grad_bias=call.grad_bias,
        )


def open_half() -> tuple[FakeService, Session]:
    fake = FakeService()
    return fake, Client(transport=MemoryTransport(fake)).open_session()


@pytest.fixture
def halves() -> Iterator[tuple[Half, Half, FakeService]]:
    (fake, one), (_, two) = open_half(), open_half()
    with one, two:
        yield Half(one), Half(two), fake


Use = Callable[[Half, Half], object]
USES: list[tuple[str, str, Use]] = [
    ("weight", "tensor", lambda a, b: a.session.get_workspace_size(a.with_weight(b.tensor))),
    ("weight", "tensor", lambda a, b: a.session.run(convolution(weight=b.tensor))),
    ("grad_input", "tensor", lambda a, b: a.session.run(convolution(grad_input=b.tensor))),
    ("buffer", "buffer", lambda a, b: a.session.tensor(b.buffer, (8,), "float32")),
    ("executor", "executor", lambda a, b: a.stream.execute(b.executor, a.buffer)),
    ("workspace", "buffer", lambda a, b: a.stream.execute(a.executor, b.buffer)),
    ("buffer", "buffer", lambda a, b: a.executor.set_tensor_buffer("weight", b.buffer)),
    ("buffer", "tensor", lambda a, b: a.executor.set_tensor_buffer("weight", b.tensor)),
    ("source", "buffer", lambda a, b: a.buffer.copy_from(b.buffer)),
    ("stream", "stream", lambda a, b: a.event.record(b.stream)),
    ("event", "event", lambda a, b: a.stream.wait_event(b.event)),
    ("start", "event", lambda a, b: a.event.elapsed_ms_since(b.event)),
]


@pytest.mark.parametrize(("parameter", "word", "use"), USES)
def test_an_object_of_another_session_is_refused_before_it_is_sent(
    halves: tuple[Half, Half, FakeService], parameter: str, word: str, use: Use
) -> None:
    mine, foreign, fake = halves
    assert mine.buffer.handle == foreign.buffer.handle
    assert mine.session.last_handles == foreign.session.last_handles
    use(mine, mine)
    before = list(fake.calls)
    with pytest.raises(AclrtError) as raised:
        use(mine, foreign)
    error = raised.value
    assert (error.code, error.name) == (107017, "ACL_ERROR_RT_INVALID_HANDLE")
    assert (error.parameter, error.allowed) == (parameter, "one of this session")
    assert error.given in {f"a {word} of another session", f"an {word} of another session"}
    assert fake.calls == before


WRONG: list[tuple[str, Callable[[Half, Any], object], str]] = [
    ("executor", lambda a, wrong: a.stream.execute(wrong), "an executor of this session"),
    ("workspace", lambda a, wrong: a.stream.execute(a.executor, wrong), "a buffer of this session"),
    ("source", lambda a, wrong: a.buffer.copy_from(wrong), "a buffer of this session"),
    ("stream", lambda a, wrong: a.event.record(wrong), "a stream of this session"),
    ("event", lambda a, wrong: a.stream.wait_event(wrong), "an event of this session"),
    ("buffer", lambda a, wrong: a.session.tensor(wrong, (1,), "FLOAT"), "a buffer of this session"),
]


@pytest.mark.parametrize(("parameter", "use", "allowed"), WRONG)
@pytest.mark.parametrize("wrong", [1, "1", numbers(1)], ids=["int", "str", "array"])
def test_an_object_of_another_kind_is_refused_by_name(
    halves: tuple[Half, Half, FakeService],
    parameter: str,
    use: Callable[[Half, Any], object],
    allowed: str,
    wrong: object,
) -> None:
    with pytest.raises(AclrtError) as raised:
        use(halves[0], wrong)
    error = raised.value
    assert (error.code, error.parameter) == (107000, parameter)
    assert error.given == type(wrong).__name__
    assert error.allowed.startswith(allowed)


def test_a_plan_is_no_executor_but_has_one(halves: tuple[Half, Half, FakeService]) -> None:
    mine: Any = halves[0]
    plan = mine.session.get_workspace_size(mine.call)
    with pytest.raises(
        AclrtError, match=("executor does not accept Plan; " r"it accepts .*: plan\.executor")
    ):
        mine.stream.execute(plan, mine.buffer)
