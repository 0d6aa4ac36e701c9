"""Over every way, the operators are described alike, and as the registry has them."""

import json
from collections.abc import Mapping
from typing import Any

import httpx2
import pydantic_core
import pytest
from google.protobuf.json_format import MessageToDict

from opserve_client import AsyncClient, Client
from opserve_client.private_service import Addresses
from opserve_kernels.description import describe
from opserve_kernels.registry import OPERATORS

pytestmark = pytest.mark.system


def of_the_registry() -> list[Mapping[str, Any]]:
    told = [describe(operator) for operator in OPERATORS.values()]
    plain: list[Mapping[str, Any]] = json.loads(pydantic_core.to_json(told))
    return plain


def test_rest_tells_what_the_registry_has(service: Addresses) -> None:
    answer = httpx2.get(f"{service.rest}/v1/operators")
    assert answer.json() == {"operators": of_the_registry()}


async def test_every_client_is_told_the_same(service: Addresses) -> None:
    told: list[list[Any]] = []
    for address in (service.grpc, service.rest):
        with Client(address) as client:
            told.append(client.list_operators())
        async with AsyncClient(address) as other:
            told.append(await other.list_operators())
    assert all(operators == told[0] for operators in told)


def test_grpc_tells_every_member_of_the_registry(service: Addresses) -> None:
    with Client(service.grpc) as client:
        told = [
            MessageToDict(
                operator,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            for operator in client.list_operators()
        ]
    assert [plain(operator) for operator in told] == of_the_registry()


Members = list[tuple[str, Any]]


def plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """JSON of a message as REST writes it: 64-bit integers are numbers, dtypes have no prefix."""
    text = json.dumps(message).replace('"DATA_TYPE_', '"')
    members: dict[str, Any] = json.loads(text, object_pairs_hook=with_numbers)
    return members


def with_numbers(members: Members) -> dict[str, Any]:
    return {key: int(value) if key in {"least", "most"} else value for key, value in members}
