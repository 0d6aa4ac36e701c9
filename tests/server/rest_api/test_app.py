"""Routes beside the calls: health and the OpenAPI document."""

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, cast
from unittest.mock import Mock

import httpx2
import pytest
from starlette.types import Receive, Send
from starlette.types import Scope as HttpScope

from opserve_kernels.registry import OPERATORS
from opserve_server.core.keys import new_key
from opserve_server.rest_api.connections import CONNECTION
from opserve_server.unknown_keys import UnknownKeyLimits
from server.guards import service_with_keys
from server.recording import DEVICE, RecordingService
from server.rest_api.conftest import Api

Json = dict[str, Any]


async def test_a_service_is_ready_while_every_profile_has_a_ready_device(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    service.devices = [DEVICE, replace(DEVICE, ready=False)]
    response = await client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "ready": True,
        "drains": False,
        "profiles": {"ascend910b": True},
    }
    service.devices.append(replace(DEVICE, profile="other", ready=False))
    response = await client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["profiles"] == {"ascend910b": True, "other": False}


async def test_a_draining_service_lives_but_is_not_ready(
    client: httpx2.AsyncClient, api: Api
) -> None:
    api.accepts = False
    response = await client.get("/readyz")
    assert (response.status_code, response.json()["drains"]) == (503, True)
    assert (await client.get("/livez")).status_code == 200


@pytest.fixture
async def document(client: httpx2.AsyncClient) -> Json:
    found: Json = (await client.get("/openapi.json")).json()
    return found


async def test_the_document_has_every_argument_of_every_operator(document: Json) -> None:
    for operator in OPERATORS.values():
        path = f"/v1/sessions/{{session}}/operators/{operator.call}:getWorkspaceSize"
        content = document["paths"][path]["post"]["requestBody"]["content"]
        name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
        arguments = document["components"]["schemas"][name]["properties"]["arguments"]
        found = document["components"]["schemas"][arguments["$ref"].rpartition("/")[2]]
        assert list(found["properties"]) == [field.name for field in fields(operator.schema)]
        assert f"/v1/operators/{operator.call}:run" in document["paths"]


async def test_every_reference_of_the_document_leads_somewhere(document: Json) -> None:
    references = set(re.findall(r"'\$ref': '([^']*)'", str(document)))
    assert references
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references <= known


def operations_of(document: Json) -> list[Json]:
    return [operation for path in document["paths"].values() for operation in path.values()]


async def test_every_operation_declares_its_refusals_and_names_itself(document: Json) -> None:
    operations = operations_of(document)
    assert len(operations) >= 84
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        refusals = {int(status) for status in operation["responses"] if int(status) >= 400}
        assert {401, 403, 429, 500, 503} <= refusals
        assert 422 not in refusals
        for status in refusals:
            problem = operation["responses"][str(status)]["content"]["application/problem+json"]
            assert problem["schema"] == {"$ref": "#/components/schemas/Problem"}


async def test_a_route_declares_only_statuses_that_it_can_return(document: Json) -> None:
    declared = {one["operationId"]: set(one["responses"]) for one in operations_of(document)}
    guarded = {"401", "403", "429", "500", "503"}
    assert declared["listDevices"] == {"200", *guarded}
    assert declared["getSession"] == {"200", "400", "404", *guarded}
    assert declared["Allocate"] == {"201", "400", "404", "409", "413", "507", *guarded}
    assert declared["Read"] == {"200", "206", "400", "404", "409", "416", *guarded}


async def test_every_operation_has_one_tag_that_the_document_describes(document: Json) -> None:
    described = {tag["name"] for tag in document["tags"] if tag["description"]}
    assert {tag for one in operations_of(document) for tag in one["tags"]} == described
    assert all(len(one["tags"]) == 1 for one in operations_of(document))


def properties_of(schema: object) -> Iterator[tuple[str, Json]]:
    """Every property of a document, however deep."""
    if isinstance(schema, list):
        for part in cast("list[object]", schema):
            yield from properties_of(part)
    elif isinstance(schema, dict):
        members = cast("Json", schema)
        if isinstance(members.get("properties"), dict):
            yield from members["properties"].items()
        for part in members.values():
            yield from properties_of(part)


async def test_every_property_and_parameter_has_a_description(document: Json) -> None:
    properties = list(properties_of(document))
    assert len(properties) > 500
    assert [name for name, one in properties if not one.get("description")] == []
    parameters = [
        one for operation in operations_of(document) for one in operation.get("parameters", [])
    ]
    assert [one["name"] for one in parameters if not one.get("description")] == []


async def test_a_path_with_a_slash_too_many_leads_to_the_one_without(
    client: httpx2.AsyncClient,
) -> None:
    headers = {"host": "["}  # of no meaning, and not asked for any
    path = "/v1/operators/?operator=aclnnIm2colBackward"
    response = await client.get(path, headers=headers)
    assert response.status_code == 307
    response = await client.get(response.headers["location"])
    assert response.status_code == 200
    assert (await client.get("/v1/nothing/")).status_code == 404


async def test_a_path_that_has_other_methods_names_them(client: httpx2.AsyncClient) -> None:
    response = await client.request("PATCH", "/v1/devices")
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")
    assert (await client.head("/v1/devices")).status_code == 200


async def test_unknown_keys_are_counted_by_address() -> None:
    api = Api()
    api.guard = service_with_keys(
        unknown_keys=UnknownKeyLimits(per_s=1.0, at_once=1, peers=4)
    ).guard
    app = api.app()

    async def guess(address: str) -> int:
        transport = httpx2.ASGITransport(app=app, client=(address, 50_000))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            headers = {"authorization": f"Bearer {new_key()}"}
            return (await client.get("/v1/devices", headers=headers)).status_code

    addresses = ("192.0.2.1", "192.0.2.1", "192.0.2.2")
    assert [await guess(address) for address in addresses] == [401, 429, 401]


async def test_the_longest_path_that_a_refusal_allows_is_served(client: httpx2.AsyncClient) -> None:
    def path(characters: int, start: str = "/v1/sessions/") -> str:
        return start.ljust(characters, "s")

    refused = await client.get(path(9999))
    assert refused.status_code == 400
    most = int(refused.json()["allowed"].removesuffix(" characters"))

    assert (await client.get(path(most + 1))).status_code == 400
    assert (await client.get(path(most))).status_code == 200
    assert (await client.get(path(most, "/nothing"))).status_code == 404


@pytest.mark.parametrize(("path", "serves"), [("/v1/devices", True), ("/livez", False)])
async def test_a_connection_is_a_tenants_once_a_call_on_it_is(path: str, serves: bool) -> None:
    known = service_with_keys()
    api = Api()
    api.guard = known.guard
    app, served = api.app(), Mock()

    async def on_connection(scope: HttpScope, receive: Receive, send: Send) -> None:
        scope["extensions"] = {CONNECTION: {"names": (), "serve_tenant": served}}
        await app(scope, receive, send)

    transport = httpx2.ASGITransport(app=on_connection)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.get(path, headers={"authorization": f"Bearer {known.lab}"})
        assert response.status_code == 200
        await client.get(path, headers={"authorization": f"Bearer {new_key()}"})
    assert served.call_count == serves
