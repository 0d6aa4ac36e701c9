"""Methods made from calls that are dataclasses; fields have the same names on both sides."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict
from types import ModuleType
from typing import Any, cast

from google.protobuf.message import Message

from opserve_server.schemas import nested_schemas

Method = Callable[[Message, object], Awaitable[Message]]


def methods_of(
    requests: Iterable[type], messages: ModuleType, run: Callable[[Any], Awaitable[Any]]
) -> dict[str, Method]:
    """The methods by name.

    Args:
        requests: Request dataclasses.
        messages: The module with their messages, REQUESTRequest and REQUESTResponse.
        run: Executes a request.
    """
    return {request.__name__: _method(request, messages, run) for request in requests}


def values_in(message: Message, kind: type) -> Any:  # noqa: ANN401  # of that kind
    """A dataclass with the fields of a message; absent fields have their defaults."""
    nested = nested_schemas(kind)
    given: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.name in nested:
            part = nested[field.name]
            given[field.name] = (
                tuple(values_in(one, part) for one in value)
                if field.is_repeated
                else values_in(value, part)
            )
        elif isinstance(value, Mapping):
            given[field.name] = dict(cast("Mapping[str, str]", value))
        else:
            given[field.name] = tuple(value) if field.is_repeated else value
    return kind(**given)


def _method(request: type, messages: ModuleType, run: Callable[[Any], Awaitable[Any]]) -> Method:
    response: type[Message] = getattr(messages, f"{request.__name__}Response")

    async def method(message: Message, _: object) -> Message:
        return response(**asdict(await run(values_in(message, request))))

    return method
