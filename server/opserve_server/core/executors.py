"""Executors: planned calls with their tensors."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from opserve_kernels.errors import invalid_argument
from opserve_kernels.operator import Operator, Plan
from opserve_kernels.tensor import Tensor, check_tensor
from opserve_server.core.buffers import Buffer
from opserve_server.core.plans import PlannedCall, UsedTensor


@dataclass(slots=True, eq=False)
class Executor:
    """A planned call with its tensors.

    Attributes:
        handle: Its handle.
        operator: What it computes.
        planned: How.
        tensors: The tensor arguments in the schema's order; None where null.
        repeatable: Whether it may run more than once.
    """

    handle: int
    operator: Operator[Any]
    planned: PlannedCall
    tensors: list[Tensor | None]
    repeatable: bool = False

    @property
    def plan(self) -> Plan:
        """How it is computed."""
        return self.planned.plan

    @property
    def used_tensors(self) -> Iterator[tuple[UsedTensor, Tensor]]:
        """Every argument that a run reads or writes."""
        for used in self.planned.used:
            tensor = self.tensors[used.index]
            assert tensor is not None, "a null pointer is not used"
            yield used, tensor

    def set_buffer(self, index: int, buffer: Buffer) -> None:
        """Assigns another buffer to a tensor.

        Raises:
            InvalidArgument: 161002, there is no such tensor, it was null in phase one, or the
                buffer is too small.
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
