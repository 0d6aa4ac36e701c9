"""The client of opserve: convolution-backward operators on virtual devices, over gRPC or REST.

Start at Client (blocking) or AsyncClient, open a session, and run an operator's call in it.
"""

from opserve_client._async.client import AsyncClient
from opserve_client._async.memory import AsyncBuffer, AsyncTensor
from opserve_client._async.session import AsyncSession
from opserve_client._async.streams import AsyncEvent, AsyncExecutor, AsyncPlan, AsyncStream
from opserve_client._sync.client import Client
from opserve_client._sync.memory import Buffer, Tensor
from opserve_client._sync.session import Session
from opserve_client._sync.streams import Event, Executor, Plan, Stream
from opserve_client.data_types import DataType, Format
from opserve_client.errors import (
    AclnnError,
    AclrtError,
    CallTimedOut,
    ExecutionFailed,
    OpserveError,
    ServiceUnreachable,
)
from opserve_client.operators.convolution_backward import (
    ConvolutionBackward,
    ConvolutionBackwardResult,
    CubeMathType,
)
from opserve_client.operators.im2col_backward import Im2colBackward, Im2colBackwardResult
from opserve_client.tensors import TensorSpec

__all__ = [
    "AclnnError",
    "AclrtError",
    "AsyncBuffer",
    "AsyncClient",
    "AsyncEvent",
    "AsyncExecutor",
    "AsyncPlan",
    "AsyncSession",
    "AsyncStream",
    "AsyncTensor",
    "Buffer",
    "CallTimedOut",
    "Client",
    "ConvolutionBackward",
    "ConvolutionBackwardResult",
    "CubeMathType",
    "DataType",
    "Event",
    "ExecutionFailed",
    "Executor",
    "Format",
    "Im2colBackward",
    "Im2colBackwardResult",
    "OpserveError",
    "Plan",
    "ServiceUnreachable",
    "Session",
    "Stream",
    "Tensor",
    "TensorSpec",
]
