"""Errors of gRPC that no service sent become the exceptions of a connection."""

import grpc
import grpc.aio
import pytest

from opserve_client import AclrtError, CallTimedOut, OpserveError, ServiceUnreachable
from opserve_client.errors import RESUMABLE
from opserve_client.wire.grpc_errors import from_rpc_error


def failed(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


@pytest.mark.parametrize(
    ("code", "details", "kind", "resumed"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Stream removed", ServiceUnreachable, True),
        (grpc.StatusCode.INTERNAL, "Internal error from Core", ServiceUnreachable, True),
        (grpc.StatusCode.CANCELLED, "CANCELLED", ServiceUnreachable, True),
        (grpc.StatusCode.CANCELLED, "Channel closed!", AclrtError, False),
        (grpc.StatusCode.INTERNAL, "Received RST_STREAM", AclrtError, False),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", CallTimedOut, False),
    ],
)
def test_an_upload_resumes_only_after_a_broken_connection(
    code: grpc.StatusCode, details: str, kind: type[OpserveError], *, resumed: bool
) -> None:
    error = from_rpc_error(failed(code, details), address="grpc://127.0.0.1:1")
    assert type(error) is kind
    assert (error.code in RESUMABLE) is resumed
    assert "127.0.0.1:1" in error.message
