"""Verdicts as JSON and back; docs/reference/conformance-verdicts.md describes the form.

Numbers without a JSON form are the texts "NaN", "Infinity" and "-Infinity".
"""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

from opserve_kernels.verdict.verdict import Verdict

VERSION = 1  # of the form; a reader rejects other versions
_STRANGE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
Json = Mapping[str, Any]


def to_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict as values that json.dumps accepts, also with `allow_nan=False`."""
    return {"version": VERSION, **_written(verdict)}


def from_json(form: Json) -> Verdict:
    """The verdict that to_json turned into this form.

    Raises:
        ValueError: Another version, or a malformed form.
    """
    try:
        if form.get("version") != VERSION:
            version = form.get("version")
            raise ValueError(f"version of a verdict: {version} was given, not {VERSION}")
        return cast("Verdict", _read(Verdict, form))
    except (KeyError, TypeError, AttributeError, OverflowError) as wrong:
        raise ValueError(f"not a verdict: {wrong!r}") from wrong


def _written(value: Any) -> Any:  # noqa: ANN401 - JSON's values have no narrower type
    match value:
        case Enum():
            return value.value
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case [*items]:
            return [_written(item) for item in items]
        case Mapping():
            return {key: _written(item) for key, item in cast("Json", value).items()}
        case _ if is_dataclass(value):
            return {field.name: _written(getattr(value, field.name)) for field in fields(value)}
        case _:
            return value


def _read(kind: Any, form: Any) -> Any:  # noqa: ANN401 - kind says what it is
    if isinstance(kind, UnionType):
        (inner,) = (part for part in get_args(kind) if part is not NoneType)
        return None if form is None else _read(inner, form)
    if get_origin(kind) is tuple:
        return tuple(_read(get_args(kind)[0], item) for item in form)
    if get_origin(kind) is Mapping:
        return {str(key): _read(get_args(kind)[1], item) for key, item in form.items()}
    if is_dataclass(kind):
        types = get_type_hints(kind)
        return cast("type", kind)(
            **{f.name: _read(types[f.name], form[f.name]) for f in fields(kind)}
        )
    if kind is float and isinstance(form, str):
        return _STRANGE[form]
    return kind(form)
