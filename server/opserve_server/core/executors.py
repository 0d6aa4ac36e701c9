"""Executors: planned calls."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from opserve_kernels.errors import invalid_argument
from opserve_kernels.operator import Operator, Plan
from opserve_kernels.tensor import Tensor, check_tensor
from opserve_server.core.buffers import Buffer


@dataclass(slots=True, eq=False)
class Executor:
    """A planned call.

    Attributes:
        handle: Its handle.
        operator: What it computes.
        plan: How.
        tensors: The tensor arguments in the schema's order; None where null.
        written: Names of the tensors it writes: its outputs but for those its mask leaves out.
        repeatable: Whether it may run more than once.
    """

    handle: int
    operator: Operator[Any]
    plan: Plan
    tensors: list[Tensor | None]
    written: frozenset[str]
    repeatable: bool = False

    @property
    def used_tensors(self) -> Iterator[tuple[int, str, Tensor]]:
        """Index, name and tensor of every argument that a run reads or writes."""
        for index, name in enumerate(self.operator.tensor_fields):
            tensor = self.tensors[index]
            if tensor is not None and (name not in self.operator.outputs or name in self.written):
                yield index, name, tensor

    def set_buffer(self, index: int, buffer: Buffer) -> None:
        """Gives a tensor another buffer.

        Raises:
            InvalidArgument: 161002, there is no such tensor, it was null in phase one, or the
                buffer is too small for it.
        """
        names = self.operator.tensor_fields
        if not 0 <= index < len(names):
            raise invalid_argument("index", given=index, allowed=f"0 to {len(names) - 1}")
        tensor = self.tensors[index]
        if tensor is None:
            raise invalid_argument(
                "index",
                given=f"{index} ({names[index]}), which was null in phase one",
                allowed="a tensor that was given in phase one",
            )
        check_tensor(names[index], tensor, buffer_bytes=buffer.size_bytes)
        self.tensors[index] = replace(tensor, buffer=buffer.handle)
