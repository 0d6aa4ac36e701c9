"""The plans of a session's calls, kept by all that they depend on, as aclnn keeps executors."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from opserve_kernels.operator import Operator, Plan, PlanOptions
from opserve_kernels.profiles import PROFILES
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import Tensor

PlannedCall = tuple[Plan, frozenset[str]]
"""A plan, and the names of the tensors that it writes: the outputs that the mask asks for."""


class Plans:
    """Plans calls on one profile; equal calls are planned once, while they are remembered.

    Attributes:
        profile: Name of the profile.

    Args:
        profile: Name of the profile.
        limit: Plans that are kept; the one that was asked for least recently goes first.
    """

    def __init__(self, profile: str, *, limit: int) -> None:
        def plan(name: str, arguments: object, options: PlanOptions) -> PlannedCall:
            operator = OPERATORS[name]
            planned = operator.plan(arguments, PROFILES[profile], options)
            return planned, _written(operator, arguments)

        self.profile = profile
        self._plan: Callable[[str, object, PlanOptions], PlannedCall] = lru_cache(maxsize=limit)(
            plan
        )

    def plan(self, operator: Operator[Any], arguments: object, options: PlanOptions) -> PlannedCall:
        """The plan of a call; where its tensors lie makes no difference to it.

        Raises:
            InvalidArgument: A rule of the operator is broken; 207001, the call is larger than 64
                bits can say.
        """
        return self._plan(operator.name, _without_buffers(operator, arguments), options)


def _without_buffers(operator: Operator[Any], arguments: Any) -> object:  # noqa: ANN401  # any schema
    given: dict[str, Tensor | None] = {
        name: getattr(arguments, name) for name in operator.tensor_fields
    }
    placed = {
        name: tensor for name, tensor in given.items() if tensor is not None and tensor.buffer
    }
    return replace(
        arguments, **{name: replace(tensor, buffer=0) for name, tensor in placed.items()}
    )


def _written(operator: Operator[Any], arguments: Any) -> frozenset[str]:  # noqa: ANN401  # any schema
    without_outputs = replace(arguments, **dict.fromkeys(operator.outputs))
    return frozenset(operator.infer_outputs(without_outputs))
