"""What both APIs ask of a dataclass that they fill from a wire: the dataclasses inside it."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import get_args, get_type_hints

from opserve_kernels.tensor import Tensor


@cache
def nested_schemas(schema: type) -> Mapping[str, type]:
    """The dataclass of every argument that has parts of its own (para_dict), by its field.

    A tensor is none of them: each API has a form of its own for it.
    """
    return {
        name: part
        for name, hint in get_type_hints(schema).items()
        for part in get_args(hint)
        if isinstance(part, type) and is_dataclass(part) and not issubclass(part, Tensor)
    }
