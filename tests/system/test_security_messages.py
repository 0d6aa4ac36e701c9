"""Unauthenticated messages: huge lists, deep nesting and invalid bytes cost little."""

import logging
from collections.abc import AsyncIterator

import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status as RpcStatus
from pydantic import BaseModel, ValidationError

from opserve.v1 import operator_service_pb2 as operator_pb
from opserve.v1.command_service_pb2 import Command, SubmitRequest
from opserve_server.calls import VALUES_LIMIT
from opserve_server.core.errors import OpserveError
from opserve_server.core.principal import Scope
from opserve_server.core.service import Service
from opserve_server.grpc_api.scopes import SCOPES
from opserve_server.rest_api.batch import SubmitBody
from opserve_server.rest_api.models import OpenSessionBody, parse, planned_body
from opserve_server.telemetry.metrics import Metrics
from server.core.fakes import LIMITS, FakeDevice, make_service
from server.entry_points import EntryPoints, every_rpc, open_entry_points
from server.guards import ServiceWithKeys, service_with_keys

MANY = 100_000
HUGE = 2 * MANY
RPCS = {rpc.name: rpc for rpc in every_rpc()}
PLAN = "/v1/sessions/none/operators/aclnnIm2colBackward:getWorkspaceSize"


@pytest.fixture
async def core() -> AsyncIterator[Service]:
    device = FakeDevice()
    made = make_service(device)
    yield made
    await made.stop()
    device.slabs.close()


@pytest.fixture
def with_keys(core: Service) -> ServiceWithKeys:
    return service_with_keys(accounts=core.accounts)


@pytest.fixture
async def entry_points(core: Service, with_keys: ServiceWithKeys) -> AsyncIterator[EntryPoints]:
    async with open_entry_points(core, with_keys.guard, Metrics()) as opened:
        yield opened


async def refused(
    entry_points: EntryPoints, name: str, data: bytes, key: str | None
) -> tuple[str, ErrorInfo]:
    """Code and details of a refusal."""
    code, packed = await entry_points.grpc_answer(RPCS[name], data, key)
    info = ErrorInfo()
    status = RpcStatus.FromString(packed)
    if status.details:
        assert status.details[0].Unpack(info)
    return code.name, info


async def test_bytes_that_are_no_message_are_refused_and_not_logged(
    entry_points: EntryPoints, with_keys: ServiceWithKeys, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for rpc in RPCS.values():
            if SCOPES[rpc.containing_service.full_name] is Scope.ADMIN:
                continue
            code, info = await refused(
                entry_points, rpc.name, b"\x0a\xff\xff\xff\xff\x0f", with_keys.lab
            )
            assert (code, info.metadata["parameter"]) == ("INVALID_ARGUMENT", "message"), rpc.name
    assert caplog.records == []


async def test_no_message_is_read_before_its_caller_is_known(entry_points: EntryPoints) -> None:
    for rpc in RPCS.values():
        code, _ = await refused(entry_points, rpc.name, b"\x0a\xff\xff\xff\xff\x0f", None)
        assert code == "UNAUTHENTICATED", rpc.name


async def test_messages_nested_too_deep_are_refused(
    entry_points: EntryPoints, with_keys: ServiceWithKeys
) -> None:
    deep = b""
    for _ in range(200):  # a group in a group: unknown fields, which a parser skips one by one
        deep = b"\xfb\x07" + deep + b"\xfc\x07"
    code, info = await refused(entry_points, "GetSession", deep, with_keys.lab)
    assert (code, info.metadata["parameter"]) == ("INVALID_ARGUMENT", "message")


async def test_json_nested_too_deep_is_refused(
    entry_points: EntryPoints, with_keys: ServiceWithKeys
) -> None:
    sent = {"authorization": f"Bearer {with_keys.lab}", "content-type": "application/json"}
    for document in (b"[" * 2000 + b"]" * 2000, b'{"a":' * 400 + b"1" + b"}" * 400):
        answer = await entry_points.rest.post("/v1/sessions", content=document, headers=sent)
        assert answer.status_code == 400
        assert answer.json()["given"] == "text that is not JSON"


async def test_too_many_commands_are_refused_before_one_is_read(
    entry_points: EntryPoints, with_keys: ServiceWithKeys
) -> None:
    request = SubmitRequest(session="none", commands=[Command()] * MANY)
    code, info = await refused(entry_points, "Submit", request.SerializeToString(), with_keys.lab)
    assert (code, info.metadata["parameter"]) == ("RESOURCE_EXHAUSTED", "commands")
    assert info.metadata["allowed"] == f"{LIMITS.commands_per_submit_limit}"


@pytest.mark.parametrize("name", ["Submit", "Write", "Verify", "ReportRun"])
async def test_a_message_of_too_many_values_is_refused_on_every_way(
    name: str, entry_points: EntryPoints, with_keys: ServiceWithKeys
) -> None:
    code, info = await refused(entry_points, name, b"\x10\x00" * HUGE, with_keys.lab)
    assert (code, info.metadata["parameter"]) == ("INVALID_ARGUMENT", "message")
    assert info.metadata["allowed"] == "at most 131072 values"


async def test_long_lists_are_refused_by_their_length_over_grpc(
    entry_points: EntryPoints, with_keys: ServiceWithKeys
) -> None:
    request = operator_pb.GetWorkspaceSizeRequest(session="none")
    request.im2col_backward.grad_output.shape.extend([2**40] * (VALUES_LIMIT + 1))
    data = request.SerializeToString()
    code, info = await refused(entry_points, "GetWorkspaceSize", data, with_keys.lab)
    assert (code, info.metadata["parameter"]) == ("INVALID_ARGUMENT", "grad_output.shape")
    assert info.metadata["allowed"] == f"at most {VALUES_LIMIT} values"


async def test_long_lists_are_refused_by_their_length_over_rest(
    entry_points: EntryPoints, with_keys: ServiceWithKeys
) -> None:
    sent = {"authorization": f"Bearer {with_keys.lab}"}
    shape = [1] * (VALUES_LIMIT + 1)
    body = {"arguments": {"grad_output": {"shape": shape}}}
    answer = await entry_points.rest.post(PLAN, json=body, headers=sent)
    assert answer.status_code == 400
    assert answer.json()["parameter"] == "arguments.grad_output.shape"
    assert answer.json()["allowed"] == f"a list of at most {VALUES_LIMIT}"


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (SubmitBody, b'{"commands": [' + b"1," * 999 + b"1]}"),
        (planned_body("im2col_backward"), b'{"arguments": {"out": {"shape": ["", "", ""]}}}'),
        (planned_body("im2col_backward"), b'{"arguments": {"kernel_size": ["", "", ""]}}'),
        (planned_body("convolution_backward"), b'{"arguments": {"output_mask": [1, 1, 1]}}'),
    ],
)
def test_a_list_is_refused_at_its_first_fault(model: type[BaseModel], document: bytes) -> None:
    with pytest.raises(ValidationError) as refusal:
        model.model_validate_json(document)
    assert refusal.value.error_count() == 1


@pytest.mark.parametrize("inside", ["", "args"])
def test_a_document_of_too_many_values_is_refused_before_it_is_read(inside: str) -> None:
    document = b"not even JSON" + b"," * (2**13 + 1)
    with pytest.raises(OpserveError) as refusal:
        parse(OpenSessionBody, document, inside=inside)
    assert refusal.value.parameter == (inside or "body")
    assert refusal.value.allowed == f"at most {2**13} values"


async def test_one_tenant_never_evicts_answers_of_another(
    entry_points: EntryPoints, with_keys: ServiceWithKeys
) -> None:
    def asks(key: str, request_id: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}", "idempotency-key": request_id}

    first = await entry_points.rest.post("/v1/sessions", headers=asks(with_keys.lab, "first"))
    for number in range(4 * LIMITS.sessions_limit):
        opened = await entry_points.rest.post(
            "/v1/sessions", headers=asks(with_keys.mill, f"{number}")
        )
        if opened.status_code == 201:
            path = f"/v1/sessions/{opened.json()['session']}"
            await entry_points.rest.delete(path, headers=asks(with_keys.mill, ""))
    again = await entry_points.rest.post("/v1/sessions", headers=asks(with_keys.lab, "first"))
    assert again.json() == first.json()
