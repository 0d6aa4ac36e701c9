"""Every API describes the operators as the registry does."""

import json
from collections.abc import Mapping
from typing import Any

import httpx2
import pydantic_core
import pytest
from google.protobuf.json_format import MessageToDict

from opserve_client import AclrtError, AsyncClient, Client
from opserve_client.private_service import Addresses
from opserve_kernels.description import describe
from opserve_kernels.operator import Operator
from opserve_kernels.registry import OPERATORS

pytestmark = pytest.mark.system


def of_the_registry() -> list[Mapping[str, Any]]:
    descriptions = [describe(operator) for operator in OPERATORS.values()]
    plain: list[Mapping[str, Any]] = json.loads(pydantic_core.to_json(descriptions))
    return plain


def test_rest_returns_the_registry(service: Addresses) -> None:
    answer = httpx2.get(f"{service.rest}/v1/operators")
    assert answer.json() == {"operators": of_the_registry()}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=list(OPERATORS))
async def test_one_operator_is_described_alike_over_every_api(
    service: Addresses, operator: Operator[Any]
) -> None:
    (listed,) = [plain for plain in of_the_registry() if plain["name"] == operator.name]
    for name in (operator.name, operator.call):
        routes = [f"/v1/operators/{name}", f"/v1/operators?operator={name}"]
        one, filtered = (httpx2.get(f"{service.rest}{route}").json() for route in routes)
        assert one == listed
        assert filtered == {"operators": [listed]}
        for address in (service.grpc, service.rest):
            with Client(address) as client:
                (described,) = client.list_operators(name)
                assert described in client.list_operators()
            async with AsyncClient(address) as other:
                assert await other.list_operators(name) == [described]


@pytest.mark.parametrize("name", ["aclnnMatmul", "a b&operator=im2col_backward", "x" * 100])
def test_an_unknown_operator_is_refused_alike_over_every_way(service: Addresses, name: str) -> None:
    calls = ", ".join(operator.call for operator in OPERATORS.values())
    for address in (service.grpc, service.rest):
        with Client(address) as client, pytest.raises(AclrtError) as refusal:
            client.list_operators(name)
        error = refusal.value
        assert (error.code, error.parameter) == (107017, "operator")
        assert error.given == name[:64]
        assert error.allowed.split("; did you mean ")[0] == calls


@pytest.mark.parametrize(
    ("method", "route"),
    [("GET", "/v1/operators/aclnnMatmul"), ("POST", "/v1/operators/aclnnMatmul:run")],
)
def test_a_route_of_an_unknown_operator_names_the_existing_ones(
    service: Addresses, method: str, route: str
) -> None:
    answer = httpx2.request(method, f"{service.rest}{route}")
    assert answer.status_code == 404
    problem = answer.json()
    assert (problem["code"], problem["parameter"]) == (107017, "operator")
    assert problem["given"] == "aclnnMatmul"
    assert problem["allowed"].startswith("aclnnConvolutionBackward, aclnnIm2colBackward, conv2d_")


async def test_every_client_receives_the_same_operators(service: Addresses) -> None:
    answers: list[list[Any]] = []
    for address in (service.grpc, service.rest):
        with Client(address) as client:
            answers.append(client.list_operators())
        async with AsyncClient(address) as other:
            answers.append(await other.list_operators())
    assert all(operators == answers[0] for operators in answers)


def test_grpc_returns_every_member_of_the_registry(service: Addresses) -> None:
    with Client(service.grpc) as client:
        listed = [
            MessageToDict(
                operator,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            for operator in client.list_operators()
        ]
    assert [plain(operator) for operator in listed] == of_the_registry()


Members = list[tuple[str, Any]]


def plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """JSON of a message as REST writes it: 64-bit integers are numbers, dtypes have no prefix."""
    text = json.dumps(message).replace('"DATA_TYPE_', '"')
    members: dict[str, Any] = json.loads(text, object_pairs_hook=with_numbers)
    return members


def with_numbers(members: Members) -> dict[str, Any]:
    """A limit without a greatest value has null, which protobuf leaves out."""
    values = {key: int(value) if key in {"least", "most"} else value for key, value in members}
    return {**values, "most": values.get("most")} if "least" in values else values
