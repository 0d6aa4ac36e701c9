"""Conversion of google.rpc.ErrorInfo, which gRPC and Connect send, to exceptions."""

from google.rpc import (  # pyright: ignore[reportMissingTypeStubs]  they are not marked typed
    error_details_pb2,
)

from opserve_client.errors import MovedMembers, OpserveError, QuotaMembers, error_for


def from_info(message: str, info: error_details_pb2.ErrorInfo) -> OpserveError:
    """Returns the exception for an error of the service."""
    metadata = info.metadata
    return error_for(
        message,
        code=int(metadata["code"]),
        domain=info.domain,
        executor=int(metadata.get("executor", "0")),
        quota=QuotaMembers(*(float(metadata[name]) for name in QuotaMembers._fields))
        if "retry_after_s" in metadata
        else None,
        moved=MovedMembers(*(metadata[name] for name in MovedMembers._fields))
        if "http_address" in metadata
        else None,
        name=info.reason,
        parameter=metadata.get("parameter", ""),
        given=metadata.get("given", ""),
        allowed=metadata.get("allowed", ""),
        request_id=metadata.get("request_id", ""),
        ended=metadata.get("ended", ""),
    )
