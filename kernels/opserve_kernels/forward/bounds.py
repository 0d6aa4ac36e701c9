"""Upper limits of forward convolutions: of the vendor's page alone, or of the cube as well."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from opserve_kernels.forward.call import Call
from opserve_kernels.operator import Limit, Rule, RuleOrigin
from opserve_kernels.page_rules import PageRules
from opserve_kernels.rules import check_range, supported_elsewhere
from opserve_kernels.status import Status
from opserve_kernels.tensor import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A limit, with the calls that it binds.

    Attributes:
        limit: The limit.
        ranks: Dimensions of the input for which it holds.
        values: Values of the argument that it binds: a tensor's sizes, an array's entries.
        transposed: Whether it binds transposed convolutions; None for both kinds.
        sentence: The page's sentence; empty if the source alone has the limit.
        is_of_cube: Whether the vendor's source rejects a call beyond the limit when it plans it.
    """

    limit: Limit
    ranks: tuple[int, ...]
    values: slice
    transposed: bool | None = None
    sentence: str = ""
    is_of_cube: bool = False

    @property
    def words(self) -> str:
        """The rule, without its profiles."""
        limit = self.limit
        return f"not in [{limit.least}, {limit.most}]: {limit.where or 'any value'};"

    @property
    def rule(self) -> Rule:
        """The row of the error table."""
        profiles = self.limit.profiles
        origin = RuleOrigin.PAGE
        if self.is_of_cube:
            origin = RuleOrigin.BOTH if self.sentence else RuleOrigin.SOURCE
        return Rule(
            status=self.status,
            parameter=self.limit.parameter,
            broken=f"{self.words} on {' and '.join(profiles)}",
            origin=origin,
            sentence="" if self.is_of_cube else self.sentence,
            profiles=profiles,
        )

    @property
    def status(self) -> Status:
        """The code that rejects a call beyond the limit."""
        if self.is_of_cube:
            return Status.ACLNN_ERR_RUNTIME_ERROR
        return Status.ACLNN_ERR_PARAM_INVALID

    def binds(self, call: Call, profile: str) -> bool:
        """Whether a call on a profile must keep to the limit."""
        return (
            profile in self.limit.profiles
            and call.input.rank in self.ranks
            and self.transposed in {None, call.steps.transposed}
            and not (self.is_of_cube and call.is_matrix_product)
        )


def check_bounds(
    call: Call, profile: str, bounds: Sequence[Bound], able: Sequence[str], page: PageRules
) -> None:
    """Rejects a call beyond a limit, or notes a warning.

    Args:
        call: The call.
        profile: Profile of the device.
        bounds: Limits of the operator.
        able: Profiles of the operator.
        page: Treats broken rules that only the page states as errors or warnings.
    """
    binding = [bound for bound in bounds if bound.binds(call, profile)]
    # The source plans nothing for an empty call. Limits of the page alone come last.
    for bound in binding:
        if bound.is_of_cube and not call.is_empty:
            _check_bound(call, bound, profile, able)
    for bound in binding:
        if not bound.is_of_cube:
            with page.rule(bound.words):
                _check_bound(call, bound, profile, able)


def _check_bound(call: Call, bound: Bound, profile: str, able: Sequence[str]) -> None:
    limit = bound.limit
    free = [name for name in able if name not in limit.profiles]
    check_range(
        limit.parameter,
        tuple(_bounded(call, bound)),
        least=limit.least,
        most=limit.most,
        where=f" on {profile}{supported_elsewhere('more', free)}",
        status=bound.status,
    )


def _bounded(call: Call, bound: Bound) -> Iterator[int]:
    """The values of the call that a limit binds."""
    name = bound.limit.parameter
    if name == call.input_name:
        name = "input"
    holder = call if hasattr(call, name) else call.steps
    given: Tensor | tuple[int, ...] | int | None = getattr(holder, name)
    if isinstance(given, Tensor):
        yield from (size for size in given.shape[bound.values] if size != 0)
    elif isinstance(given, tuple):
        # Padding before and after has two values for each dimension.
        count = len(given) // call.steps.axes
        axes = range(call.steps.axes)[bound.values]
        yield from (given[axis * count + side] for axis in axes for side in range(count))
    elif given is not None:
        yield given
