"""AdminService, made from the calls of administration: fields have the same names on both sides."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

from google.protobuf.message import Message

from opserve.v1 import admin_service_pb2
from opserve_server.admin_audit import audited
from opserve_server.admin_calls import ANSWERS
from opserve_server.administration import Administration
from opserve_server.schemas import nested_schemas


def admin_face(administration: Administration) -> object:
    """A servicer of AdminService."""
    return SimpleNamespace(
        **{request.__name__: _method(administration, request) for request in ANSWERS}
    )


def _method(
    administration: Administration, request: type
) -> Callable[[Message, object], Awaitable[Message]]:
    response: type[Message] = getattr(admin_service_pb2, f"{request.__name__}Response")

    async def method(message: Message, _: object) -> Message:
        with audited():
            answer: Any = await administration.run(_values(message, request))
        return response(**asdict(answer))

    return method


def _values(message: Message, kind: type) -> object:
    """A dataclass with the fields of a message; what is absent has its default."""
    nested = nested_schemas(kind)
    given: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.name in nested:
            given[field.name] = _values(value, nested[field.name])
        else:
            given[field.name] = tuple(value) if field.is_repeated else value
    return kind(**given)
