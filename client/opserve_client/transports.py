"""Transports to a service, for Client(transport=...) and for transports of your own."""

from opserve_client._async.transports.base import AsyncTransport
from opserve_client._async.transports.grpc import AsyncGrpcTransport
from opserve_client._async.transports.memory import AsyncMemoryTransport
from opserve_client._async.transports.rest import AsyncRestTransport
from opserve_client._sync.transports.base import Transport
from opserve_client._sync.transports.grpc import GrpcTransport
from opserve_client._sync.transports.memory import MemoryTransport
from opserve_client._sync.transports.rest import RestTransport

__all__ = [
    "AsyncGrpcTransport",
    "AsyncMemoryTransport",
    "AsyncRestTransport",
    "AsyncTransport",
    "GrpcTransport",
    "MemoryTransport",
    "RestTransport",
    "Transport",
]
