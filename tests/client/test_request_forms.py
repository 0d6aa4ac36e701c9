"""Requests of what a program gives name the fields that they have."""

import pytest

from opserve.v1.admin_service_pb2 import CreateTenantRequest
from opserve_client import AclrtError
from opserve_client.request_forms import RESOURCES, limits_and_lifted, request_of
from opserve_server.core.tenants import Resource


def test_a_misspelt_member_is_refused_with_the_existing_ones() -> None:
    with pytest.raises(AclrtError, match=r"quota .*'sessons'.* device_memory_bytes, sessions, "):
        request_of(CreateTenantRequest, quota={"sessons": 3})


def test_a_value_of_another_type_is_refused_with_the_field() -> None:
    with pytest.raises(
        AclrtError, match=("weight does not accept 'x'; " r"it accepts .*CreateTenantRequest\.wei")
    ):
        request_of(CreateTenantRequest, weight="x")


def test_an_unknown_resource_of_a_quota_is_refused_with_the_resources_and_the_likely_one() -> None:
    with pytest.raises(AclrtError, match=r"device_memory_bytes, sessions, .*did you mean sessions"):
        limits_and_lifted({"sesions": None})


def test_the_resources_of_a_quota_are_those_of_the_service() -> None:
    assert set(RESOURCES) == set(Resource)
