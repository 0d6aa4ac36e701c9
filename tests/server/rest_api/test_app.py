"""What stands beside the calls: health and the OpenAPI document."""

import re
from dataclasses import fields, replace
from typing import Any

import httpx2
import pytest

from opserve_kernels.registry import OPERATORS
from server.recording import DEVICE, RecordingService
from server.rest_api.conftest import Face

Json = dict[str, Any]


async def test_a_service_is_ready_while_every_profile_has_a_ready_device(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    service.devices = [DEVICE, replace(DEVICE, ready=False)]
    response = await client.get("/readyz")
    assert response.status_code == 200
    assert response.json() == {"ready": True, "profiles": {"ascend910b": True}}
    service.devices.append(replace(DEVICE, profile="other", ready=False))
    response = await client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["profiles"] == {"ascend910b": True, "other": False}


async def test_a_draining_service_lives_but_is_not_ready(
    client: httpx2.AsyncClient, face: Face
) -> None:
    face.accepts = False
    assert (await client.get("/readyz")).status_code == 503
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


async def test_every_operation_declares_its_refusals_and_names_itself(document: Json) -> None:
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len(operations) >= 32
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        problem = operation["responses"]["400"]["content"]["application/problem+json"]
        assert problem["schema"] == {"$ref": "#/components/schemas/Problem"}


async def test_the_documentation_page_reads_the_document(client: httpx2.AsyncClient) -> None:
    assert "/openapi.json" in (await client.get("/docs")).text


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
