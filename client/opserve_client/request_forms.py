"""Requests of administration and conformance from the arguments of a program."""

from collections.abc import Mapping
from typing import Any, TypeVar

from google.protobuf.message import Message

from opserve.v1.admin_service_pb2 import Quota
from opserve_client.arguments import shown, text
from opserve_client.errors import invalid_parameter
from opserve_kernels.user_input import choices

RESOURCES = tuple(field.name for field in Quota.DESCRIPTOR.fields)
"""Resources that a quota limits."""
LIMIT_MAXIMUM = 2**63 - 1
"""Greatest limit of a resource."""
KEY_DAYS = (0.0001, 36_600.0)
"""Least and greatest lifetime of a key in days: some seconds, and a century."""
_RATES = ("calls_per_s", "device_seconds_per_day")
"""Resources whose limit need not be a whole number."""
RequestT = TypeVar("RequestT", bound=Message)


def request_of(kind: type[RequestT], **fields: Any) -> RequestT:  # noqa: ANN401  # of its fields
    """Returns a request with these fields; None means absent.

    Raises:
        AclrtError: 107000, a value does not fit the type of its field.
    """
    request = kind()
    for name, value in fields.items():
        try:
            request.MergeFrom(kind(**{name: value}))
        except (TypeError, ValueError):
            form = request.DESCRIPTOR.fields_by_name[name].message_type
            members = "" if form is None else f", with {', '.join(form.fields_by_name)}"
            allowed = f"a value of {request.DESCRIPTOR.name}.{name}{members}"
            raise invalid_parameter(name, shown(value), allowed) from None
    return request


def named(value: object, *, parameter: str) -> str:
    """Validates a name, which must not be empty."""
    name = text(value, parameter=parameter)
    if not name:
        message = f"{parameter} is empty: pass a value."
        raise invalid_parameter(parameter, "''", "a value that is not empty", message=message)
    return name


def limits_and_lifted(
    quota: Mapping[str, float | None] | None,
) -> tuple[dict[str, float], list[str]]:
    """Splits a quota into limits to set, and resources whose limit to remove.

    Raises:
        AclrtError: 107000, a name is no resource, or a limit is out of its range.
    """
    given = dict(quota or {})
    for name, limit in given.items():
        if name not in RESOURCES:
            raise invalid_parameter("quota", shown(name), choices(RESOURCES, str(name)))
        if limit is not None and not _is_limit(limit, may_be_part=name in _RATES):
            kind = "a number" if name in _RATES else "a whole number"
            allowed = f"{kind}, 0 to {LIMIT_MAXIMUM}, or none for no limit"
            raise invalid_parameter(f"quota.{name}", shown(limit), allowed)
    limits = {resource: limit for resource, limit in given.items() if limit is not None}
    return limits, [resource for resource, limit in given.items() if limit is None]


def _is_limit(value: object, *, may_be_part: bool) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return 0 <= value <= LIMIT_MAXIMUM and (may_be_part or value % 1 == 0)
