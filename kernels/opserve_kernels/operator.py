"""What an operator is to the rest of the system: a schema, a plan and the name of a kernel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

from opserve_kernels.profiles import Profile
from opserve_kernels.tensor import Tensor

WORKSPACE_ALIGNMENT = 512
Arguments = TypeVar("Arguments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A call made ready before it runs: pure data, the same for equal arguments.

    Attributes:
        workspace_size: Bytes of scratch memory the kernel uses, a multiple of 512; exact.
        units: Work units of the kernel, to be run in order 0 .. units-1, in slices of any size.
        parameters: Everything the kernel needs besides memory, as 64-bit integers.
    """

    workspace_size: int
    units: int
    parameters: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator(Generic[Arguments]):
    """A named computation.

    Attributes:
        name: Snake case, as in folders, messages and the registry.
        call: As the vendor names it (aclnnXxx).
        schema: Frozen dataclass of the arguments; its `Tensor | None` fields, in order, are the
            tensors that a kernel receives and that SetTensorBuffer counts.
        outputs: Names of the tensor fields that the kernel writes.
        infer_outputs: The output tensors (contiguous, no buffer) that a caller would make for
            arguments whose output fields are None; what cannot be inferred is left out.
        plan: Checks the arguments in the vendor's order and plans; raises InvalidArgument.
        kernel: Module with `run(parameters, tensors, workspace, first_unit, last_unit)`; imports
            numba, so only workers import it. `tensors` are byte views of whole buffers, empty
            where null.
    """

    name: str
    call: str
    schema: type[Arguments]
    outputs: tuple[str, ...]
    infer_outputs: Callable[[Arguments], Mapping[str, Tensor]]
    plan: Callable[[Arguments, Profile], Plan]
    kernel: str

    @property
    def tensor_fields(self) -> tuple[str, ...]:
        """Names of the tensor arguments in the schema's order."""
        return tuple(field.name for field in fields(self.schema) if field.type == (Tensor | None))  # type: ignore[arg-type]
