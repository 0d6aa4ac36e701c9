"""Calls of the TBE DSL and of FT-DSP: their arguments, outputs, refusals and errors."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs]  they are not marked typed
    error_details_pb2,
    status_pb2,
)
from typing_extensions import override

from client.fake_service import FakeService, refusal
from client.samples import numbers
from opserve.v1.command_service_pb2 import Error
from opserve.v1.operator_service_pb2 import GetWorkspaceSizeRequest
from opserve_client import (
    AclnnError,
    AclrtError,
    Client,
    Conv2dBackpropFilter,
    Conv2dBackpropInput,
    DeconvError,
    DeconvGradFilter,
    OpserveError,
    Session,
    TbeError,
    group_dict,
)
from opserve_client.errors import error_from_result
from opserve_client.operators import get_workspace_size_request, plain
from opserve_client.run_batches import prepare
from opserve_client.transports import MemoryTransport
from opserve_client.wire.grpc_errors import from_rpc_error
from opserve_client.wire.http_errors import from_connect, from_route

PARA_DICT: dict[str, Any] = {
    "strides": [1, 1],
    "padding": (0, 0, 0, 0),
    "dilations": np.ones(4, np.int32),
    "res_dtype": "float16",
    "offset_x": 0,
    "offset_w": None,
    "kernel_name": "",
    "group_dict": group_dict((16, 16, 1, 1), 1),
}
PARAM = (16, 4, 4, 1, 16, 4, 4, 1, 4, 4, 1, 1, 0, 0, 1, 1, 1, 0)


def backprop_input(**changes: Any) -> Conv2dBackpropInput:
    arguments: dict[str, Any] = {
        "filters": numbers(1, 1, 16, 16, dtype=np.float16),
        "out_backprop": numbers(2, 1, 3, 3, 16, dtype=np.float16),
        "filter_sizes": [16, 16, 1, 1],
        "input_sizes": [2, 16, 3, 3],
        "para_dict": PARA_DICT,
    }
    return Conv2dBackpropInput(**arguments | changes)


def backprop_filter(**changes: Any) -> Conv2dBackpropFilter:
    arguments: dict[str, Any] = {
        "input_x": numbers(2, 1, 3, 3, 16, dtype=np.float16),
        "out_backprop": numbers(2, 1, 3, 3, 16, dtype=np.float16),
        "filter_sizes": [16, 16, 1, 1],
    }
    return Conv2dBackpropFilter(**arguments | changes)


def deconvolution(**changes: Any) -> DeconvGradFilter:
    arguments: dict[str, Any] = {
        "dy_data": numbers(16, 4, 4, 1),
        "x_data": numbers(16, 4, 4, 1),
        "param": PARAM,
    }
    return DeconvGradFilter(**arguments | changes)


def sent(call: Any) -> Any:  # the message of its operator
    request: GetWorkspaceSizeRequest = get_workspace_size_request(plain(call), {})
    return getattr(request, request.WhichOneof("operator") or "")


# What is sent


def test_the_parts_of_para_dict_travel_with_what_is_zero_or_empty() -> None:
    message = sent(backprop_input())
    para_dict = message.para_dict
    assert [*para_dict.dilations.values] == [1, 1, 1, 1]
    assert (para_dict.res_dtype, para_dict.kernel_name) == ("float16", "")
    assert para_dict.HasField("kernel_name")
    assert para_dict.HasField("offset_x")
    assert not para_dict.HasField("offset_w")
    assert para_dict.group_dict.filter_ori_format == "NCHW"
    assert para_dict.group_dict.multiple_extend == 1


def test_an_empty_dict_is_not_an_absent_one() -> None:
    empty, absent = backprop_input(para_dict={}), backprop_input(para_dict=None)
    assert sent(empty).HasField("para_dict")
    assert not sent(empty).para_dict.ListFields()
    assert not sent(absent).HasField("para_dict")


def test_explicit_zeros_and_false_are_sent() -> None:
    message = sent(backprop_filter(raw=False, para_dict={"groups": 0, "strides": []}))
    assert message.HasField("raw")
    assert message.para_dict.HasField("groups")
    assert message.para_dict.HasField("strides")
    named = sent(deconvolution(param=None, pad_u=0, function="", core_mask=0))
    fields = {"dy_data", "x_data"} | {field.name for field, _ in named.ListFields()}
    assert fields - {"dy_data", "x_data"} == {"pad_u", "function", "core_mask"}


# What the client refuses itself

MISTAKES: list[tuple[Any, str, str]] = [
    (
        backprop_input(para_dict=PARA_DICT | {"stride": 1}),
        "para_dict",
        "the key 'stride'; it accepts",
    ),
    (backprop_input(para_dict={1: 1}), "para_dict", "the key 1; it accepts the keys strides, padd"),
    (
        backprop_input(para_dict=[1]),
        "para_dict",
        r"does not accept \[1\]; it accepts a dict with the keys str",
    ),
    (backprop_input(para_dict={"strides": 1}), "para_dict.strides", "it accepts a sequence of int"),
    (backprop_input(para_dict={"res_dtype": np.float16}), "para_dict.res_dtype", "a string"),
    (backprop_input(para_dict={"kernel_name": "\ud800"}), "para_dict.kernel_name", "a string"),
    (backprop_input(para_dict={"offset_x": True}), "para_dict.offset_x", "an integer"),
    (
        backprop_input(para_dict={"group_dict": {"g": 1}}),
        "para_dict.group_dict",
        "the key 'g'; it accepts the keys g_extend, multiple_extend",
    ),
    (backprop_filter(raw=0), "raw", "True or False"),
    (
        backprop_filter(input_x={}),
        "input_x",
        "does not accept dict; it accepts an array of numbers",
    ),
    (
        backprop_filter(input_x=np.zeros(1, complex)),
        "input_x",
        "does not accept complex128; it accepts FLOAT",
    ),
    (backprop_filter(filter_sizes=16), "filter_sizes", "a sequence of integers of 64 bits"),
    (
        backprop_filter(res_tensor="float31"),
        "res_tensor",
        "does not accept float31; it accepts FLOAT",
    ),
]
DECONV_MISTAKES: list[tuple[Any, str, str]] = [
    (deconvolution(param=3), "param", "does not accept 3; it accepts a sequence of integers"),
    (deconvolution(param=[*PARAM[:17], "0"]), "param", "a sequence of integers"),
    (deconvolution(core_mask="f"), "core_mask", "an integer"),
    (deconvolution(function=1), "function", "does not accept 1; it accepts a string"),
    (deconvolution(temp_space=object()), "temp_space", "an integer"),
    (deconvolution(dw_data={}), "dw_data", "a dtype or None"),
]


@pytest.mark.parametrize(("call", "parameter", "message"), MISTAKES)
def test_a_mistake_in_a_tbe_call_is_a_tbe_error(
    session: Session, fake: FakeService, call: Any, parameter: str, message: str
) -> None:
    before = list(fake.calls)
    with pytest.raises(TbeError, match=message) as raised:
        session.run(call)
    assert (raised.value.code, raised.value.name) == ("E60038", "E60038")
    assert raised.value.parameter == parameter
    assert fake.calls == before


@pytest.mark.parametrize(("call", "parameter", "message"), DECONV_MISTAKES)
def test_a_mistake_in_a_deconvolution_is_a_deconv_error(
    session: Session, fake: FakeService, call: Any, parameter: str, message: str
) -> None:
    before = list(fake.calls)
    with pytest.raises(DeconvError, match=message) as raised:
        session.run(call)
    assert (raised.value.code, raised.value.name) == (2, "DECONV_PARAM_INVALID")
    assert raised.value.parameter == parameter
    assert fake.calls == before


def test_an_array_where_a_tensor_of_the_device_is_due_is_of_the_family(session: Session) -> None:
    with pytest.raises(TbeError, match="filters does not accept ndarray"):
        session.get_workspace_size(backprop_input())
    with pytest.raises(DeconvError, match="dy_data does not accept ndarray"):
        session.get_workspace_size(deconvolution())


# Outputs

OUTPUTS: list[tuple[Any, tuple[int, ...], str, str]] = [
    (backprop_input(), (2, 1, 3, 3, 16), "FLOAT16", "NC1HWC0"),
    (backprop_input(input_sizes=[1, 33, 2, 5], para_dict={}), (1, 3, 2, 5, 16), "FLOAT16", ""),
    (backprop_input(para_dict={"res_dtype": "float32"}), (2, 1, 3, 3, 16), "FLOAT", ""),
    (backprop_input(para_dict=None, res_tensor="float32"), (2, 1, 3, 3, 16), "FLOAT", ""),
    (backprop_filter(), (1, 1, 16, 16), "FLOAT", "FRACTAL_Z"),
    (
        backprop_filter(filter_sizes=[24, 24, 3, 1], para_dict={"groups": 3}),
        (6 * 3, 1, 16, 16),
        "FLOAT",
        "FRACTAL_Z",
    ),
    (deconvolution(), (1, 16, 1), "FLOAT", "ND"),
    (
        deconvolution(param=None, kernel_h=3, kernel_w=2, group=2, in_c=6, out_c=4),
        (2, 2 * 3 * 2, 3),
        "FLOAT",
        "",
    ),
    (
        deconvolution(
            x_data=numbers(1, 2, 2, 3, dtype=np.float16), param=None, kernel_h=1, kernel_w=1
        ),
        (1, 1, 3),
        "FLOAT16",
        "",
    ),
]


@pytest.mark.parametrize(("call", "shape", "dtype", "form"), OUTPUTS)
def test_outputs_are_made_as_designed(
    call: Any, shape: tuple[int, ...], dtype: str, form: str
) -> None:
    ((_, spec),) = prepare(plain(call)).results.items()
    assert (spec.shape, spec.dtype) == (shape, dtype)
    assert spec.format == (form or spec.format)


MALFORMED: list[Any] = [
    backprop_input(input_sizes=[1, 2, 3]),
    backprop_input(input_sizes=[-1, 2, 3, 4]),
    backprop_input(input_sizes=[2**62, 2**62, 2**62, 2**62]),
    backprop_input(input_sizes=None, para_dict=None),
    backprop_input(para_dict={"res_dtype": "float8"}),
    backprop_filter(para_dict={"groups": 0}),
    backprop_filter(para_dict={"groups": 3}),
    backprop_filter(filter_sizes=[16, 16, 1]),
    backprop_filter(filter_sizes=[16, 16, 2**62, 2**62]),
    backprop_filter(filter_sizes=None),
    deconvolution(param=()),
    deconvolution(param=[*PARAM[:16], 0, 0]),
    deconvolution(param=[-(2**63)] * 16 + [1, 0]),
    deconvolution(param=None),
    deconvolution(param=None, kernel_h=1, kernel_w=1, x_data=numbers(3)),
    deconvolution(x_data=None),
]


@pytest.mark.parametrize("call", MALFORMED)
def test_malformed_arguments_reach_the_service(
    session: Session, fake: FakeService, call: Any
) -> None:
    fake.failures["get_workspace_size"] = [refusal(161002, "call", "malformed")]
    with pytest.raises(AclnnError, match="does not accept malformed"):
        session.run(call)
    assert fake.calls[-1] == "Run"


# Buffers that a call names


def test_temp_space_may_be_a_buffer_by_itself_or_in_param(session: Session) -> None:
    session.allocate(8)
    buffer = session.allocate(1024)
    assert sent(deconvolution(temp_space=buffer)).temp_space == buffer.handle == 2
    for kind in (list, tuple):
        message = sent(deconvolution(param=kind([*PARAM[:17], buffer, 5, 6])))
        assert [*message.param.values] == [*PARAM[:17], buffer.handle, 5, 6]


def test_a_buffer_is_no_other_number(session: Session) -> None:
    buffer = session.allocate(1024)
    for wrong in (deconvolution(param=[buffer, *PARAM[1:]]), deconvolution(in_h=buffer)):
        with pytest.raises(DeconvError):
            plain(wrong)
    with pytest.raises(TbeError):
        plain(backprop_filter(para_dict={"groups": buffer}))


@pytest.mark.parametrize("way", ["run", "get_workspace_size"])
@pytest.mark.parametrize("place", ["param", "temp_space"])
def test_a_buffer_of_another_session_is_refused(session: Session, place: str, way: str) -> None:
    with Client(transport=MemoryTransport(FakeService())).open_session() as other:
        buffer = other.allocate(1024)
        value = [*PARAM[:17], buffer] if place == "param" else buffer
        with pytest.raises(
            AclrtError, match="does not accept a buffer of another session"
        ) as raised:
            getattr(session, way)(deconvolution(**{place: value}))
    assert (raised.value.code, raised.value.parameter) == (107017, place)


# Errors from either API

FIELDS: dict[str, str] = {"parameter": "p", "given": "g", "allowed": "a"}


class FailedRpc(grpc.RpcError):
    """A failed call of gRPC with an ErrorInfo of some domain."""

    def __init__(self, info: error_details_pb2.ErrorInfo) -> None:
        packed = AnyMessage()
        packed.Pack(info)
        status = status_pb2.Status(code=3, message="reported", details=[packed])
        self._trailers = (("grpc-status-details-bin", status.SerializeToString()),)

    @override
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.INVALID_ARGUMENT

    @override
    def details(self) -> str:
        return "reported"

    @override
    def trailing_metadata(self) -> Any:
        return self._trailers


def every_wire(domain: str, code: int, reason: str) -> Mapping[str, OpserveError]:
    metadata = {"code": str(code), "request_id": "r1"} | FIELDS
    info = error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=metadata)
    members = {"code": code, "reason": reason, "domain": domain} | FIELDS
    problem = json.dumps(members | {"detail": "reported", "request_id": "r1"}).encode()
    value = base64.b64encode(info.SerializeToString()).decode()
    details = [{"type": "google.rpc.ErrorInfo", "value": value}]
    connect = json.dumps({"message": "reported", "details": details}).encode()
    return {
        "gRPC": from_rpc_error(FailedRpc(info), address="grpc://a:1"),
        "Connect": from_connect(400, connect, address="http://a:1"),
        "REST": from_route(400, problem, address="http://a:1"),
        "batch": error_from_result(Error(**members, message="reported")),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    }


@pytest.mark.parametrize("wire", ["gRPC", "Connect", "REST", "batch"])
def test_a_tbe_error_is_raised_as_the_vendor_raises_it(wire: str) -> None:
    error = every_wire("opserve.tbe", 60011, "E60011")[wire]
    assert type(error) is TbeError
    assert isinstance(error, RuntimeError)
    assert (error.code, error.name) == ("E60011", "E60011")
    args_dict, message = error.args
    request_id = "" if wire == "batch" else "r1"
    assert args_dict == {"errCode": "E60011", "request_id": request_id} | FIELDS
    assert message == "reported"
    assert str(error) == "E60011: reported"


@pytest.mark.parametrize("wire", ["gRPC", "Connect", "REST", "batch"])
def test_a_deconv_error_has_opserves_own_number_and_name(wire: str) -> None:
    error = every_wire("opserve.ft_dsp", 2, "DECONV_PARAM_INVALID")[wire]
    assert type(error) is DeconvError
    assert (error.code, error.name) == (2, "DECONV_PARAM_INVALID")
    assert (error.parameter, error.given, error.allowed) == ("p", "g", "a")
    assert str(error) == "2 DECONV_PARAM_INVALID: reported"


@pytest.mark.parametrize("wire", ["gRPC", "Connect", "REST", "batch"])
def test_an_error_of_a_family_that_is_not_known_is_no_other_familys(wire: str) -> None:
    error = every_wire("opserve.newer", 161002, "NEW")[wire]
    assert type(error) is OpserveError
    assert (error.code, error.name) == (161002, "NEW")
