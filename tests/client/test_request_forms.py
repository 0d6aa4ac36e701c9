"""Requests of what a program gives name the fields that they have."""

import pytest

from opserve.v1.admin_service_pb2 import CreateTenantRequest
from opserve_client import AclrtError
from opserve_client.request_forms import request_of


def test_a_misspelt_member_is_refused_with_the_existing_ones() -> None:
    with pytest.raises(AclrtError, match=r"quota: .*'sessons'.* device_memory_bytes, sessions, "):
        request_of(CreateTenantRequest, quota={"sessons": 3})


def test_a_value_of_another_type_is_refused_with_the_field() -> None:
    with pytest.raises(AclrtError, match=r"weight: given 'x', allowed .*CreateTenantRequest\.wei"):
        request_of(CreateTenantRequest, weight="x")
