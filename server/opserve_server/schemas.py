"""Nested dataclasses of operator schemas, for both APIs."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import get_args, get_type_hints

from opserve_kernels.tensor import Tensor


@cache
def nested_schemas(schema: type) -> Mapping[str, type]:
    """The dataclass of every argument with fields of its own (para_dict), by its field.

    Tensors are excluded: each API has its own form for them.
    """
    return {
        name: part
        for name, hint in get_type_hints(schema).items()
        for part in get_args(hint)
        if isinstance(part, type) and is_dataclass(part) and not issubclass(part, Tensor)
    }
