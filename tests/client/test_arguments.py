"""Plain Python mistakes are refused by name, with a code of the vendor, before anything is sent."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from client.fake_service import FakeService
from client.samples import columns, convolution, numbers
from opserve.v1.operator_service_pb2 import GetWorkspaceSizeRequest
from opserve_client import AclnnError, AclrtError, Client, Session
from opserve_client.arguments import ACCURACIES, choice
from opserve_client.handles import Handles
from opserve_client.operators import get_workspace_size_request, plain

INTEGERS = "a sequence of integers of 64 bits"
MISTAKES: list[tuple[dict[str, Any], str]] = [
    (
        {"weight": {}},
        "weight does not accept dict; it accepts an array .* a tensor of the session or None",
    ),
    (
        {"weight": [[1], [2, 3]]},
        r"weight does not accept list \(.*inhomogeneous.*; it accepts an array",
    ),
    ({"input": "float32"}, "input does not accept str; it accepts an array of numbers"),
    ({"grad_input": {}}, "grad_input does not accept dict; it accepts an array .* a dtype or None"),
    ({"grad_input": "float31"}, "grad_input does not accept float31; it accepts FLOAT"),
    ({"bias_sizes": 1}, f"bias_sizes does not accept 1; it accepts {INTEGERS}"),
    ({"stride": 2**63}, f"stride does not accept 9223372036854775808; it accepts {INTEGERS}"),
    ({"stride": True}, f"stride does not accept True; it accepts {INTEGERS}"),
    ({"stride": [1.0, 1.0]}, rf"stride does not accept \[1.0, 1.0\]; it accepts {INTEGERS}"),
    ({"stride": "11"}, f"stride does not accept '11'; it accepts {INTEGERS}"),
    ({"stride": [True, True]}, f"stride does not accept .*; it accepts {INTEGERS}"),
    (
        {"stride": [2**63, 1]},
        rf"stride does not accept \[9223372036854775808, 1\]; it accepts {INTEGERS}",
    ),
    ({"stride": np.ones((2, 1), np.int64)}, f"stride does not accept .*; it accepts {INTEGERS}"),
    ({"bias_sizes": [None]}, f"bias_sizes does not accept .*; it accepts {INTEGERS}"),
    ({"groups": "1"}, "groups does not accept '1'; it accepts an integer of 64 bits"),
    ({"groups": True}, "groups does not accept True; it accepts an integer of 64 bits"),
    ({"groups": 1.0}, "groups does not accept 1.0; it accepts an integer of 64 bits"),
    ({"cube_math_type": "KEEP"}, "cube_math_type does not accept 'KEEP'; it accepts an integer"),
    ({"transposed": 0}, "transposed does not accept 0; it accepts True or False"),
    (
        {"output_mask": [1, 1, 1]},
        "output_mask does not accept .*; it accepts a sequence of True and False",
    ),
    (
        {"output_mask": True},
        "output_mask does not accept True; it accepts a sequence of True and False",
    ),
]


@pytest.mark.parametrize(("change", "message"), MISTAKES)
@pytest.mark.parametrize("way", ["run", "get_workspace_size"])
def test_an_argument_of_the_wrong_kind_is_refused(
    session: Session, fake: FakeService, change: dict[str, Any], message: str, way: str
) -> None:
    if way == "get_workspace_size" and "float31" in str(change):
        message = "grad_output"  # a dtype is no argument of phase one
    before = list(fake.calls)
    with pytest.raises(AclnnError, match=message) as raised:
        getattr(session, way)(convolution(**change))
    assert raised.value.code == 161002
    assert raised.value.parameter in raised.value.message
    assert raised.value.given
    assert raised.value.allowed
    assert fake.calls == before


def test_the_block_of_im2col_is_looked_at_before_it_is_counted(session: Session) -> None:
    with pytest.raises(AclnnError, match="kernel_size does not accept 'x'"):
        session.run(columns(grad_output=numbers(4, 2), input_size=[1, 1], kernel_size="x"))


def test_numpys_integers_and_booleans_are_as_good_as_pythons() -> None:
    numpys = convolution(
        stride=np.array([1, 1]),
        padding=[np.int64(1), np.int8(1)],
        groups=np.int32(1),
        transposed=np.bool_(0),
        output_mask=np.array([True, True, True]),
    )
    sent: list[GetWorkspaceSizeRequest] = [
        get_workspace_size_request(plain(call), {}) for call in (numpys, convolution())
    ]
    assert sent[0] == sent[1]


RUNTIME: list[tuple[Callable[[Any], object], int, str]] = [
    (lambda s: s.allocate(-1), 100000, "size_bytes"),
    (lambda s: s.allocate(2**70), 100000, "size_bytes"),
    (lambda s: s.allocate("8"), 100000, "size_bytes"),
    (lambda s: s.allocate(8.0), 100000, "size_bytes"),
    (lambda s: s.empty((2**40, 2**40), "float32"), 100000, "size_bytes"),
    (lambda s: s.empty((2, -1), "float32"), 161002, "shape"),
    (lambda s: s.empty(5, "float32"), 161002, "shape"),
    (lambda s: s.empty((1.5,), "float32"), 161002, "shape"),
    (lambda s: s.empty((2,), "float32", format=["NCHW"]), 161002, "format"),
    (lambda s: s.tensor(None, (2,), "float32", strides=1), 161002, "strides"),
    (lambda s: s.tensor(None, (2,), "float32", offset=0.5), 161002, "offset"),
    (lambda s: s.tensor(None, (2,), "float32", storage_shape=[2**64]), 161002, "storage_shape"),
    (lambda s: s.allocate(8).write("text"), 107000, "data"),
    (lambda s: s.allocate(8).write(b"", offset=-1), 107000, "offset"),
    (lambda s: s.allocate(8).read(offset=-1), 107000, "offset"),
    (lambda s: s.allocate(8).read(size_bytes=-1), 107000, "size_bytes"),
    (lambda s: s.allocate(8).fill(-1), 107000, "value"),
    (lambda s: s.allocate(8).fill(0, size_bytes=2**64), 107000, "size_bytes"),
    (lambda s: s.allocate(8).copy_from(s.allocate(8), offset=-1), 107000, "offset"),
    (lambda s: s.allocate(8).copy_from(s.allocate(8), source_offset=""), 107000, "source_offset"),
    (lambda s: s.default_stream.synchronize(timeout_ms=0.5), 107000, "timeout_ms"),
    (lambda s: s.create_event().synchronize(timeout_ms=2**63), 107000, "timeout_ms"),
    (lambda s: s.default_stream.set_failure_mode("halt"), 107000, "mode"),
    (lambda s: s.default_stream.set_failure_mode("unspecified"), 107000, "mode"),
    (lambda s: s.set_deterministic_level("weak"), 107000, "level"),
    (lambda s: s.set_deterministic_level(1), 107000, "level"),
]


@pytest.mark.parametrize(("use", "code", "parameter"), RUNTIME)
def test_a_value_that_no_call_can_carry_is_refused(
    session: Session, use: Callable[[Any], object], code: int, parameter: str
) -> None:
    with pytest.raises((AclnnError, AclrtError)) as raised:
        use(session)
    error = raised.value
    assert (error.code, error.parameter) == (code, parameter)
    assert error.message == (
        f"{parameter} does not accept {error.given}; it accepts {error.allowed}."
    )
    assert error.name.isupper()


MAKING: list[Callable[[Any], object]] = [
    lambda s: s.allocate(8),
    lambda s: s.create_stream(),
    lambda s: s.create_event(),
    lambda s: s.run(convolution(input=numbers(2, 3, 100, 100))),
]


@pytest.mark.parametrize("use", MAKING)
def test_exhausted_handles_are_reported(session: Session, use: Callable[[Any], object]) -> None:
    most = 2**32 - 1
    session._calls.last = Handles(buffer=most, executor=most, stream=most, event=most)
    with pytest.raises(
        AclrtError, match=f"does not accept 42949[0-9]+; it accepts .* to {most}"
    ) as raised:
        use(session)
    assert raised.value.code == 107000


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), "9", None, True])
def test_a_time_limit_is_positive(timeout_s: Any) -> None:
    with pytest.raises(
        AclrtError, match=r"timeout_s does not accept .* a positive number"
    ) as raised:
        Client(timeout_s=timeout_s)
    assert (raised.value.code, raised.value.parameter) == (107000, "timeout_s")


def test_a_session_is_opened_with_a_name_and_a_time(client: Client) -> None:
    wrong: Any = client
    with pytest.raises(AclrtError, match="profile does not accept 910; it accepts a string"):
        wrong.open_session(910)
    with pytest.raises(
        AclrtError, match="lease_s does not accept -1; it accepts a positive number"
    ):
        wrong.open_session(lease_s=-1)
    with pytest.raises(
        AclrtError, match="workspace_limit_bytes does not accept -1; it accepts an integer"
    ):
        wrong.open_session(workspace_limit_bytes=-1)


def test_a_misspelt_choice_is_refused_with_all_values_and_the_likely_one() -> None:
    with pytest.raises(
        AclrtError, match=r"accuracy does not accept .*direct, fast; did you mean direct\?"
    ):
        choice("dirct", ACCURACIES, parameter="accuracy")
