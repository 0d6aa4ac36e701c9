"""Response models for the OpenAPI document, made from the dataclasses of the core."""

from dataclasses import fields, is_dataclass
from functools import cache
from types import GenericAlias, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, create_model
from pydantic import Field as Bounds

from opserve_kernels.docstrings import description_of, descriptions_of


@cache
def documented(answer: Any) -> Any:  # noqa: ANN401  # a type, such as X | None
    """The type of an answer, with a model for each dataclass."""
    if is_dataclass(answer):
        return _answer_model(answer)
    parts: tuple[Any, ...] = get_args(answer)
    origin = get_origin(answer)
    if origin in {None, Literal}:
        return answer
    made = tuple(part if part is Ellipsis else documented(part) for part in parts)
    return _subscripted(Union if origin is UnionType else origin, made)


def _subscripted(generic: Any, parts: tuple[Any, ...]) -> Any:  # noqa: ANN401  # types
    return generic[parts]


def _answer_model(dataclass: Any) -> type[BaseModel]:  # noqa: ANN401  # its type
    hints, described = get_type_hints(dataclass), descriptions_of(dataclass)
    members: dict[str, Any] = {
        field.name: (
            Annotated[
                _answer_type(hints[field.name], dataclass),
                Bounds(description=described[field.name]),
            ],
            ...,
        )
        for field in fields(dataclass)
    }
    return create_model(dataclass.__name__, __doc__=description_of(dataclass), **members)


def _answer_type(hint: Any, owner: type) -> Any:  # noqa: ANN401  # types
    parts = get_args(hint)
    if owner not in parts:
        return documented(hint)
    # By name, since its model is being made.
    named = tuple(owner.__name__ if part is owner else part for part in parts)
    return GenericAlias(get_origin(hint), named)
