"""Executors (planned calls), and plans kept for equal calls of a session."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from operator import attrgetter
from typing import Any

from opserve_kernels.errors import invalid_argument
from opserve_kernels.operator import Operator, Plan, PlanOptions
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import Tensor, check_tensor
from opserve_server.core.buffers import Buffer


@dataclass(slots=True, eq=False)
class Executor:
    """A planned call with its tensors.

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


PlannedCall = tuple[Plan, frozenset[str]]
"""A plan, and the names of the tensors that it writes: the outputs selected by the mask."""


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
            planned = plan, _written(known, arguments)
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


def _written(operator: Operator[Any], arguments: Any) -> frozenset[str]:  # noqa: ANN401  # any schema
    without_outputs = replace(arguments, **dict.fromkeys(operator.outputs))
    return frozenset(operator.infer_outputs(without_outputs))
