"""One sample of every command and of every error, for tests that must leave none out."""

from collections.abc import Mapping, Sequence
from typing import get_args

from opserve_kernels.operators.conv2d_backprop_filter.schema import (
    Conv2dBackpropFilter,
    Conv2dBackpropFilterParaDict,
)
from opserve_kernels.operators.conv2d_backprop_input.schema import (
    Conv2dBackpropInput,
    Conv2dBackpropInputParaDict,
    GroupDict,
)
from opserve_kernels.operators.convolution_backward.schema import ConvolutionBackward
from opserve_kernels.operators.deconv_grad_filter.schema import DeconvGradFilter
from opserve_kernels.status import AnyStatus, DeconvStatus, Status, TbeStatus
from opserve_kernels.tensor import DataType, Format, Tensor
from opserve_server.core import errors
from opserve_server.core.commands import Command
from opserve_server.core.errors import OpserveError
from opserve_server.core.info import ServiceAddress
from opserve_server.core.principal import LOCAL
from opserve_server.core.tenants import Resource
from server.core import every_command as core

ARGUMENTS = ConvolutionBackward(
    grad_output=Tensor(
        shape=(1, 4, 6, 6),
        dtype=DataType.BF16,
        format=Format.NCHW,
        strides=(144, 36, 6, 1),
        offset=2,
        storage_shape=(146,),
        buffer=1,
    ),
    weight=Tensor(shape=(), dtype=DataType.FLOAT, buffer=3),
    bias_sizes=(),
    stride=(1, 1),
    transposed=False,
    groups=0,
    output_mask=(True, False, True),
)
"""Absent, empty, zero and false values beside each other, for they must stay apart."""

COMMANDS: list[Command] = [
    core.Allocate(size_bytes=64, buffer=3),
    core.Free(buffer=3),
    core.Fill(buffer=3, offset=8, size_bytes=16, value=255),
    core.Write(buffer=3, offset=8, data=b"\xfb\xff\xfe\x00"),
    core.Read(buffer=3, offset=8, size_bytes=16),
    core.Copy(destination=4, destination_offset=1, source=3, source_offset=2, size_bytes=5),
    core.GetWorkspaceSize(operator="convolution_backward", arguments=ARGUMENTS, executor=2),
    core.Execute(
        executor=2,
        workspace=5,
        workspace_offset=512,
        workspace_size=0,
        stream=1,
        timeout_ms=0,
        cold_caches=True,
    ),
    core.SetRepeatable(executor=2),
    core.SetTensorBuffer(executor=2, index=12, buffer=6),
    core.DestroyExecutor(executor=2),
    core.CreateStream(stream=1),
    core.DestroyStream(stream=1),
    core.SetFailureMode(stream=1, mode=core.FailureMode.STOP),
    core.SynchronizeStream(stream=1, timeout_ms=-1),
    core.AbortStream(stream=1),
    core.QueryStream(stream=1),
    core.CreateEvent(event=2),
    core.DestroyEvent(event=2),
    core.RecordEvent(event=2, stream=1),
    core.StreamWaitEvent(stream=1, event=2),
    core.QueryEvent(event=2),
    core.SynchronizeEvent(event=2, timeout_ms=0),
    core.EventElapsedTime(start=2, end=3),
]
assert {type(command) for command in COMMANDS} == set(get_args(Command)), "one of each"

OPERATOR_CALLS = [
    core.GetWorkspaceSize(
        operator="conv2d_backprop_input",
        arguments=Conv2dBackpropInput(
            filters=Tensor(
                shape=(1, 1, 16, 16), dtype=DataType.FLOAT16, format=Format.FRACTAL_Z, buffer=1
            ),
            filter_sizes=(),
            para_dict=Conv2dBackpropInputParaDict(
                strides=(),
                padding=(0, 0, 0, 0),
                res_dtype="",
                offset_x=0,
                group_dict=GroupDict(g_extend=0, groups=3, filter_ori_format=""),
            ),
        ),
    ),
    core.GetWorkspaceSize(
        operator="conv2d_backprop_input",
        arguments=Conv2dBackpropInput(
            para_dict=Conv2dBackpropInputParaDict(offset_w=0, group_dict=GroupDict())
        ),
    ),
    core.GetWorkspaceSize(
        operator="conv2d_backprop_input",
        arguments=Conv2dBackpropInput(para_dict=Conv2dBackpropInputParaDict()),
    ),
    core.GetWorkspaceSize(
        operator="conv2d_backprop_filter",
        arguments=Conv2dBackpropFilter(
            para_dict=Conv2dBackpropFilterParaDict(groups=0, kernel_name="é"), raw=False
        ),
    ),
    core.GetWorkspaceSize(
        operator="conv2d_backprop_filter",
        arguments=Conv2dBackpropFilter(filter_sizes=(2**63 - 1, -(2**63)), raw=True),
    ),
    core.GetWorkspaceSize(
        operator="deconv_grad_filter",
        arguments=DeconvGradFilter(
            param=(), core_mask=0, function="", pad_u=0, temp_space=0, row_order="kh_kw_oc"
        ),
    ),
]
"""Arguments with parts, and zeros, false and empty values that must not become absent ones."""

_STATUS = Status.ACL_ERROR_RT_OVER_LIMIT
_PARTS = {"parameter": "groups", "given": "3", "allowed": "1 to 2"}
ERRORS: Sequence[OpserveError] = [
    errors.InvalidArgument(Status.ACLNN_ERR_PARAM_INVALID, "groups: given 3", **_PARTS),
    errors.InvalidArgument(TbeStatus.E60011, "groups: given 3", **_PARTS),
    errors.InvalidArgument(DeconvStatus.DECONV_PARAM_INVALID, "groups: given 3", **_PARTS),
    errors.HandleNotFound("buffer", 9),
    errors.NotSupported(_STATUS, "groups: given 3", **_PARTS),
    errors.WrongState(_STATUS, "groups: given 3", **_PARTS),
    errors.OutOfMemory(_STATUS, "groups: given 3", **_PARTS),
    errors.LimitExceeded(_STATUS, "groups: given 3", **_PARTS),
    errors.CallTooLarge(_STATUS, "groups: given 3", **_PARTS),
    errors.QuotaExceeded(
        Resource.STREAMS, tenant="ours", limit=8, use=8, requested=1, retry_after_s=1.5
    ),
    errors.WaitTimedOut(_STATUS, "groups: given 3", **_PARTS),
    errors.TooManyUnknownKeys("192.0.2.1", per_s=1.0),
    errors.NotAllowed("Host", given="a.example", allowed="localhost", reason="elsewhere"),
    errors.PermissionDenied(LOCAL, scope="the scope admin"),
    errors.Unauthenticated("an unknown key"),
    errors.Unavailable(_STATUS, "groups: given 3", **_PARTS),
    errors.StoreUnavailable(),
    errors.Moved(ServiceAddress(name="b", grpc="grpc://b:1", http="http://b:2")),
    errors.DataCorrupted("crc32c", given=1, allowed=2),
    errors.ExecutionFailed("executor: given 4, whose kernel failed", executor=4),
    errors.ExecutionAborted("executor: given 4, whose stream was aborted", executor=4),
    errors.DeadlineMissed("executor: given 4, whose deadline passed", executor=4),
]
ERROR_CLASSES = {
    found
    for name in errors.__all__
    if isinstance(found := getattr(errors, name), type) and found is not OpserveError
}
assert {type(error) for error in ERRORS} == ERROR_CLASSES, "one of each"
ERROR_IDS = [f"{type(error).__name__} {error.status.name}" for error in ERRORS]
DOMAINS: Mapping[type[AnyStatus], str] = {
    Status: "opserve",
    TbeStatus: "opserve.tbe",
    DeconvStatus: "opserve.ft_dsp",
}


def members_of(error: OpserveError) -> dict[str, float | str]:
    """Metadata of an error beside its message, for some classes."""
    match error:
        case errors.ExecutionFailed():
            return {"executor": 4}
        case errors.QuotaExceeded():
            return {"limit": 8, "use": 8, "retry_after_s": 1.5}
        case errors.Moved():
            return {"service": "b", "grpc_address": "grpc://b:1", "http_address": "http://b:2"}
        case _:
            return {}
