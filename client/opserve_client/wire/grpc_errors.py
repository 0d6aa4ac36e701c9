"""Conversion of gRPC errors to exceptions."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import grpc
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs]  they are not marked typed
    error_details_pb2,
    status_pb2,
)

from opserve_client.errors import (
    OPSERVE,
    OpserveError,
    malformed_answer,
    over_limit,
    timed_out,
    unknown_call,
    unreachable,
)
from opserve_client.wire.connection_failures import explained
from opserve_client.wire.error_info import from_info

_DETAILS = "grpc-status-details-bin"
_REFUSED = "CANCELLED"
"""Details of a call that gRPC rejected before the service received it."""
_SENDING_FAILED = "Internal error from Core"
"""Details that grpc.aio reports for a message that it could not send; no service sends this text.

A connection that breaks during an upload causes this error or the status UNAVAILABLE, in a race.
"""


@runtime_checkable
class FailedCall(Protocol):
    """The members that a grpc.RpcError of grpc and of grpc.aio has."""

    def code(self) -> grpc.StatusCode:
        """The status."""
        ...

    def details(self) -> str | None:
        """The message."""
        ...

    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
        """The metadata of the service."""
        ...


def from_rpc_error(error: grpc.RpcError, *, address: str) -> OpserveError:
    """Returns the exception for a failed call to an address, "grpc://farm:50051"."""
    assert isinstance(error, FailedCall), "grpc raises its errors with the state of their call"
    info = _error_info(error)
    if info is not None:
        return from_info(error.details() or "", info)
    failure = f"gRPC {error.code().name}: {error.details()}"
    if error.code() is grpc.StatusCode.UNAVAILABLE or _is_sending_failed(error):
        return unreachable(explained(address, failure))
    message = f"{address}: {failure}"
    if error.code() is grpc.StatusCode.CANCELLED and error.details() == _REFUSED:
        return unreachable(f"{message}; too many calls wait at the service: try again later")
    return _BY_CODE.get(error.code(), malformed_answer)(message)


_BY_CODE = {
    grpc.StatusCode.RESOURCE_EXHAUSTED: over_limit,
    grpc.StatusCode.DEADLINE_EXCEEDED: timed_out,
    grpc.StatusCode.UNIMPLEMENTED: unknown_call,
}


def _is_sending_failed(error: FailedCall) -> bool:
    return error.code() is grpc.StatusCode.INTERNAL and error.details() == _SENDING_FAILED


def _error_info(error: FailedCall) -> error_details_pb2.ErrorInfo | None:
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS and isinstance(value, bytes):
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info) and info.domain.partition(".")[0] == OPSERVE:
                    return info
    return None
