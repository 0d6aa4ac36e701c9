"""Transports to a service, for Client(transport=...) and for transports of your own."""

from opserve_client._async.transports.base import AsyncTransport
from opserve_client._async.transports.connect import AsyncConnectTransport
from opserve_client._async.transports.grpc import AsyncGrpcTransport
from opserve_client._async.transports.memory import AsyncMemoryTransport
from opserve_client._sync.transports.base import Transport
from opserve_client._sync.transports.connect import ConnectTransport
from opserve_client._sync.transports.grpc import GrpcTransport
from opserve_client._sync.transports.memory import MemoryTransport

__all__ = [
    "AsyncConnectTransport",
    "AsyncGrpcTransport",
    "AsyncMemoryTransport",
    "AsyncTransport",
    "ConnectTransport",
    "GrpcTransport",
    "MemoryTransport",
    "Transport",
]
