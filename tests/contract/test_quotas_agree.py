"""By each API, alone and in a batch, a client gets the same error for a used quota."""

import json
from collections.abc import Callable, Mapping

import grpc
import pytest
from google.rpc.error_details_pb2 import QuotaFailure, RetryInfo
from typing_extensions import override

from opserve.v1.command_service_pb2 import CommandResult
from opserve_client.errors import OpserveError, QuotaExceeded, error_from_result
from opserve_client.wire.grpc_errors import from_rpc_error
from opserve_client.wire.http_errors import from_connect, from_route
from opserve_client.wire.json_messages import from_json
from opserve_server.calls import ObservedCall
from opserve_server.connect_api.errors import UNARY_ERRORS
from opserve_server.core import errors
from opserve_server.core.observations import Call, ignore
from opserve_server.core.results import Failed
from opserve_server.core.tenants import Resource
from opserve_server.grpc_api.convert import result_of
from opserve_server.grpc_api.errors import row_of, rpc_status
from opserve_server.rest_api.batch import result_in_json
from opserve_server.rest_api.errors import refusal

ID = "mine-1"


class FailedCall(grpc.RpcError):
    """A call that gRPC's client saw fail."""

    def __init__(self, error: errors.OpserveError) -> None:
        super().__init__()
        self._error = error

    @override
    def code(self) -> grpc.StatusCode:
        return row_of(self._error).code

    @override
    def details(self) -> str:
        return self._error.message

    @override
    def trailing_metadata(  # type: ignore[override]  # pairs, as both libraries give them
        self,
    ) -> tuple[tuple[str, bytes], ...]:
        status = rpc_status(self._error, request_id=ID)
        return (("grpc-status-details-bin", status.SerializeToString()),)


def over_grpc(error: errors.OpserveError) -> OpserveError:
    return from_rpc_error(FailedCall(error), address="grpc://there:1")


def over_rest(error: errors.OpserveError) -> OpserveError:
    answer = refusal(error, path="/", request_id=ID)
    return from_route(answer.status_code, bytes(answer.body), address="http://there:1")


def over_connect(error: errors.OpserveError) -> OpserveError:
    with ObservedCall(Call(api="connect", method="", request_id=ID, headers={}), ignore):
        answer = UNARY_ERRORS.refusal(error, path="/", request_id=ID)
    return from_connect(answer.status_code, bytes(answer.body), address="http://there:1")


def in_a_batch_over_grpc(error: errors.OpserveError) -> OpserveError:
    return error_from_result(result_of("free", Failed(error=error)).error)


def in_a_batch_over_rest(error: errors.OpserveError) -> OpserveError:
    members = json.loads(json.dumps(result_in_json("free", Failed(error=error))))
    return error_from_result(from_json(members, CommandResult).error)


WAYS: Mapping[str, Callable[[errors.OpserveError], OpserveError]] = {
    "gRPC": over_grpc,
    "REST": over_rest,
    "Connect": over_connect,
    "gRPC, batch": in_a_batch_over_grpc,
    "REST, batch": in_a_batch_over_rest,
}


def a_refusal(resource: Resource) -> errors.QuotaExceeded:
    return errors.QuotaExceeded(
        resource, tenant="ours", limit=2**40, use=2**40 - 0.5, requested=7, retry_after_s=0.25
    )


@pytest.mark.parametrize("resource", Resource)
@pytest.mark.parametrize("way", WAYS)
def test_a_client_receives_every_member_of_a_refusal(way: str, resource: Resource) -> None:
    error = a_refusal(resource)
    members = WAYS[way](error)
    assert isinstance(members, QuotaExceeded)
    assert (members.limit, members.use, members.retry_after_s) == (2**40, 2**40 - 0.5, 0.25)
    assert (members.parameter, members.given, members.allowed) == (
        resource,
        error.given,
        error.allowed,
    )
    assert (members.code, members.name) == (error.status.value, error.status.name)
    assert members.message == error.message


@pytest.mark.parametrize("way", WAYS)
def test_a_limit_of_the_service_is_no_quota(way: str) -> None:
    error = errors.HandleNotFound("buffer", 1)
    assert not isinstance(WAYS[way](error), QuotaExceeded)


def test_both_apis_return_the_time_to_retry() -> None:
    error = a_refusal(Resource.CALLS_PER_S)
    answer = refusal(error, path="/", request_id=ID)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    failure, retry = QuotaFailure(), RetryInfo()
    status = rpc_status(error, request_id=ID)
    assert [detail.Unpack(failure) for detail in status.details].count(True) == 1
    assert [detail.Unpack(retry) for detail in status.details].count(True) == 1
    (violation,) = failure.violations
    assert (violation.subject, violation.description) == ("tenant:ours", error.message)
    assert retry.retry_delay.ToMilliseconds() == 250
