"""The interface of the schemas in opserve_kernels that the client uses."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from opserve_kernels.tensor import Format, Tensor


class Schema(Protocol):
    """A module opserve_kernels.operators.<operator>.schema.

    The module also has the dataclass of the arguments, by the name of the request's message.
    """

    @property
    def CALL(self) -> str:  # noqa: N802  a module's constant, as the next four
        """The vendor's name of the call."""
        ...

    @property
    def OUTPUTS(self) -> tuple[str, ...]:  # noqa: N802
        """The tensors that a call writes, in the schema's order."""
        ...

    @property
    def FORMATS(self) -> Mapping[int, Format]:  # noqa: N802
        """Formats of arrays by number of dimensions; ND elsewhere."""
        ...

    @property
    def C_HEADER(self) -> str:  # noqa: N802
        """The vendor's C header of the call; "" where there is none."""
        ...

    @property
    def C_TYPES(self) -> Mapping[str, str]:  # noqa: N802
        """The C types of its integers."""
        ...

    @property
    def infer_outputs(self) -> Callable[[Any], Mapping[str, Tensor]]:
        """The outputs that arguments without outputs imply, where they imply any."""
        ...
