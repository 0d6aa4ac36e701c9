"""By each API, a client gets the same error for a session of another service of a farm."""

import json

import pytest

from contract.test_quotas_agree import ID, over_connect, over_grpc, over_rest
from opserve_client.errors import Moved
from opserve_server.core import errors
from opserve_server.core.info import ServiceAddress
from opserve_server.rest_api.errors import refusal

MOVED = errors.Moved(ServiceAddress(name="b", grpc="grpcs://b:1", http="https://b:2"))


@pytest.mark.parametrize("way", [over_grpc, over_rest, over_connect])
def test_a_client_receives_the_service_and_both_of_its_addresses(way: object) -> None:
    assert callable(way)
    error = way(MOVED)
    assert isinstance(error, Moved)
    assert (error.service, error.grpc, error.http) == ("b", "grpcs://b:1", "https://b:2")
    assert (error.code, error.parameter, error.message) == (207005, "session", MOVED.message)


def test_a_program_without_the_sdk_reads_the_address_in_the_problem() -> None:
    answer = refusal(MOVED, path="/v1/sessions", request_id=ID)
    problem = json.loads(bytes(answer.body))
    assert answer.status_code == 421
    assert (problem["service"], problem["http_address"]) == ("b", "https://b:2")
    assert problem["grpc_address"] == "grpcs://b:1"
