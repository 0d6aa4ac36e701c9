"""The client of opserve: convolution operators on virtual devices, over gRPC or Connect.

Start at Client (blocking) or AsyncClient, open a session, and run an operator's call in it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from opserve_client._sync.admin import Admin
from opserve_client._sync.client import Client
from opserve_client._sync.conformance import Conformance
from opserve_client._sync.memory import Buffer, Tensor
from opserve_client._sync.session import Session
from opserve_client._sync.streams import Event, Executor, Plan, Stream
from opserve_client.access import TlsFiles
from opserve_client.benchmark import Benchmark
from opserve_client.device import Device
from opserve_client.errors import (
    AclnnError,
    AclrtError,
    AuthenticationError,
    CallTimedOut,
    DeconvError,
    ExecutionFailed,
    Moved,
    OpserveError,
    PermissionDeniedError,
    QuotaExceeded,
    ServiceUnreachable,
    SessionLost,
    TbeError,
)
from opserve_client.handles import Handles
from opserve_client.operators.conv2d_backprop_filter import (
    Conv2dBackpropFilter,
    Conv2dBackpropFilterParaDict,
    Conv2dBackpropFilterResult,
)
from opserve_client.operators.conv2d_backprop_input import (
    Conv2dBackpropInput,
    Conv2dBackpropInputParaDict,
    Conv2dBackpropInputResult,
    GroupDict,
)
from opserve_client.operators.conv_depthwise2d import ConvDepthwise2d, ConvDepthwise2dResult
from opserve_client.operators.conv_tbc import ConvTbc, ConvTbcResult
from opserve_client.operators.conv_tbc_backward import ConvTbcBackward, ConvTbcBackwardResult
from opserve_client.operators.convolution import Convolution, ConvolutionResult
from opserve_client.operators.convolution_backward import (
    ConvolutionBackward,
    ConvolutionBackwardResult,
    CubeMathType,
)
from opserve_client.operators.deconv_grad_filter import DeconvGradFilter, DeconvGradFilterResult
from opserve_client.operators.im2col import Im2col, Im2colResult
from opserve_client.operators.im2col_backward import Im2colBackward, Im2colBackwardResult
from opserve_client.rule_warnings import DocumentedRuleWarning
from opserve_client.tensors import TensorSpec
from opserve_client.watched import Series, WatchedState
from opserve_kernels.formats import (
    fractal_z_shape,
    from_5hd,
    from_fractal_z,
    group_dict,
    to_5hd,
    to_fractal_z,
)
from opserve_kernels.tensor import DataType, Format

if TYPE_CHECKING:
    from opserve_client._async.admin import AsyncAdmin
    from opserve_client._async.client import AsyncClient
    from opserve_client._async.conformance import AsyncConformance
    from opserve_client._async.memory import AsyncBuffer, AsyncTensor
    from opserve_client._async.session import AsyncSession
    from opserve_client._async.streams import AsyncEvent, AsyncExecutor, AsyncPlan, AsyncStream

__all__ = [
    "AclnnError",
    "AclrtError",
    "Admin",
    "AsyncAdmin",
    "AsyncBuffer",
    "AsyncClient",
    "AsyncConformance",
    "AsyncEvent",
    "AsyncExecutor",
    "AsyncPlan",
    "AsyncSession",
    "AsyncStream",
    "AsyncTensor",
    "AuthenticationError",
    "Benchmark",
    "Buffer",
    "CallTimedOut",
    "Client",
    "Conformance",
    "Conv2dBackpropFilter",
    "Conv2dBackpropFilterParaDict",
    "Conv2dBackpropFilterResult",
    "Conv2dBackpropInput",
    "Conv2dBackpropInputParaDict",
    "Conv2dBackpropInputResult",
    "ConvDepthwise2d",
    "ConvDepthwise2dResult",
    "ConvTbc",
    "ConvTbcBackward",
    "ConvTbcBackwardResult",
    "ConvTbcResult",
    "Convolution",
    "ConvolutionBackward",
    "ConvolutionBackwardResult",
    "ConvolutionResult",
    "CubeMathType",
    "DataType",
    "DeconvError",
    "DeconvGradFilter",
    "DeconvGradFilterResult",
    "Device",
    "DocumentedRuleWarning",
    "Event",
    "ExecutionFailed",
    "Executor",
    "Format",
    "GroupDict",
    "Handles",
    "Im2col",
    "Im2colBackward",
    "Im2colBackwardResult",
    "Im2colResult",
    "Moved",
    "OpserveError",
    "PermissionDeniedError",
    "Plan",
    "QuotaExceeded",
    "Series",
    "ServiceUnreachable",
    "Session",
    "SessionLost",
    "Stream",
    "TbeError",
    "Tensor",
    "TensorSpec",
    "TlsFiles",
    "WatchedState",
    "fractal_z_shape",
    "from_5hd",
    "from_fractal_z",
    "group_dict",
    "to_5hd",
    "to_fractal_z",
]

_ASYNC = {
    "AsyncAdmin": "admin",
    "AsyncClient": "client",
    "AsyncConformance": "conformance",
    "AsyncBuffer": "memory",
    "AsyncTensor": "memory",
    "AsyncSession": "session",
    "AsyncEvent": "streams",
    "AsyncExecutor": "streams",
    "AsyncPlan": "streams",
    "AsyncStream": "streams",
}
"""Modules of the asyncio client by class."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Loads a class of the asyncio client at its first use: asyncio takes 40 ms to load."""
        if name not in _ASYNC:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"{__name__}._async.{_ASYNC[name]}")
        return getattr(module, name)
