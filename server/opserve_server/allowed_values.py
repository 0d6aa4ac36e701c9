"""Allowed values of a document or setting, in plain words instead of pydantic's."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from opserve_kernels.user_input import choices

_TYPES: Mapping[str, str] = {
    "json_invalid": "a JSON object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "list_type": "an array",
    "tuple_type": "an array",
    "string_type": "a string",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "int_parsing_size": "an integer of 64 bits",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "missing": "a value: it has no default",
}
"""Allowed values by the type of pydantic's error."""

_BOUNDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than": lambda bounds: f"more than {bounds['gt']:g}",
    "greater_than_equal": lambda bounds: f"at least {bounds['ge']}",
    "less_than_equal": lambda bounds: f"at most {bounds['le']}",
    "too_long": lambda bounds: f"a list of at most {bounds['max_length']}",
    "too_short": lambda bounds: f"a list of at least {bounds['min_length']}",
    "enum": lambda bounds: _choices(bounds["expected"]),
    "literal_error": lambda bounds: _choices(bounds["expected"]),
    "value_error": lambda bounds: str(bounds["error"]),
}
"""Allowed values for errors with bounds; our own validators raise ValueError(allowed values)."""


def allowed(error: ErrorDetails, model: type[BaseModel]) -> str:
    """The allowed values where an error was found in a document of a model."""
    kind = error["type"]
    if kind == "extra_forbidden":
        return _fields(error["loc"], model)
    if kind in _BOUNDS:
        return _BOUNDS[kind](error.get("ctx", {}))
    return _TYPES.get(kind, "a value of its schema")


def _choices(expected: str) -> str:
    """Formats pydantic's "'A', 'B' or 'C'" as a plain list."""
    return f"one of {expected.replace(' or ', ', ')}".replace("'", "")


def _fields(place: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """The known fields at the place of an unknown one, and the object that it belongs to."""
    *path, unknown = place
    for name in path:
        if isinstance(name, str):
            model = next(_models(_by_name(model)[name]))
    known = _by_name(model)
    for name, kind in known.items():
        if any(unknown in _by_name(inner) for inner in _models(kind)):
            return f"the fields {', '.join(known)}; {unknown} belongs inside {name}"
    return f"the fields {choices(known, str(unknown))}" if known else "no fields"


def _by_name(model: type[BaseModel]) -> dict[str, Any]:
    """The types of a model's fields by their names in the document."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models(kind: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401  # a type, such as X | None
    """The models inside a type."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models(part)
