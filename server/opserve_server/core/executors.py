"""Executors (planned calls), and plans kept for equal calls of a tenant."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from opserve_kernels.errors import invalid_argument
from opserve_kernels.operator import Operator, Plan, PlanOptions
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import Tensor, check_tensor

if TYPE_CHECKING:  # accounts keep plans, and memory is charged to accounts
    from opserve_server.core.buffers import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedTensor:
    """A tensor that a run of a planned call reads or writes.

    Attributes:
        index: Index among the operator's tensors.
        name: Name of the argument.
        written: Whether it is an output.
        start: Bytes from the start of its buffer to its first element.
        end: Bytes from the start of its buffer to the end of its last element.
    """

    index: int
    name: str
    written: bool
    start: int
    end: int

    @property
    def span(self) -> int:
        """Bytes from its first element to the end of its last one."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """The plan of a call, and its tensors wherever they are.

    Attributes:
        plan: How it is computed.
        used: The tensors that a run reads or writes: not the outputs that the mask leaves out.
    """

    plan: Plan
    used: tuple[UsedTensor, ...]


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

    def set_buffer(self, index: int, buffer: "Buffer") -> None:
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


class Plans:
    """Plans calls on one profile; equal calls share a plan while it is kept.

    Attributes:
        profile: Name of the profile.

    Args:
        profile: Name of the profile.
        limit: Plans kept; the least recently used is dropped first.
    """

    def __init__(self, profile: str, *, limit: int) -> None:
        self.profile = profile
        self._limit = limit
        self._planned: OrderedDict[object, PlannedCall] = OrderedDict()

    def plan(self, operator: Operator[Any], arguments: object, options: PlanOptions) -> PlannedCall:
        """The plan of a call; the location of its tensors does not matter.

        Raises:
            InvalidArgument: A rule of the operator is broken; 207001, a size or position exceeds 64
                bits.
        """
        # Everything on which a plan depends: not the place of the tensors, so that repeated calls
        # on new buffers share it.
        key = (operator.name, options, _without_buffers(arguments))
        # Removed and added again: the dict is in the order of use.
        planned = self._planned.pop(key, None)
        if planned is None:
            known = OPERATORS[operator.name]
            plan = known.plan(arguments, PROFILES[self.profile], options)
            planned = PlannedCall(plan, tuple(_used(known, arguments)))
        self._planned[key] = planned
        if len(self._planned) > self._limit:
            self._planned.popitem(last=False)
        return planned


def _without_buffers(arguments: object) -> tuple[object, ...]:
    """All values of the arguments except the buffers of their tensors."""
    schema: type = type(arguments)
    values = _values_of(schema)(arguments)
    return tuple(_VIEW(value) if isinstance(value, Tensor) else value for value in values)


@cache
def _values_of(schema: type) -> Callable[[object], tuple[object, ...]]:
    return attrgetter(*(field.name for field in fields(schema)))


_VIEW = attrgetter(*(field.name for field in fields(Tensor) if field.name != "buffer"))


def _used(operator: Operator[Any], arguments: Any) -> Iterator[UsedTensor]:  # noqa: ANN401  # any schema
    without_outputs = replace(arguments, **dict.fromkeys(operator.outputs))
    written = operator.infer_outputs(without_outputs)
    for index, name in enumerate(operator.tensor_fields):
        tensor: Tensor | None = getattr(arguments, name)
        if tensor is not None and (name not in operator.outputs or name in written):
            size = tensor.dtype.size_bytes
            yield UsedTensor(
                index=index,
                name=name,
                written=name in written,
                start=tensor.offset * size,
                end=tensor.end * size,
            )
