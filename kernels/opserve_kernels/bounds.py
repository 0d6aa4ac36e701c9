"""Upper limits of convolutions: of the vendor's page alone, or of the cube as well."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from opserve_kernels.operator import Limit, Rule, RuleOrigin
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

    def binds(self, rank: int, profile: str, *, transposed: bool) -> bool:
        """Whether calls of a rank and kind on a profile must keep to the limit."""
        return (
            profile in self.limit.profiles
            and rank in self.ranks
            and self.transposed in {None, transposed}
        )

    def check(
        self,
        given: Tensor | tuple[int, ...] | int | None,
        profile: str,
        *,
        rank: int,
        able: Sequence[str],
    ) -> None:
        """Rejects a value beyond the limit; sizes of 0 are no matter of limits.

        Args:
            given: The argument; None for one that the call lacks.
            profile: Profile of the device.
            rank: Dimensions of the input.
            able: Profiles that support such calls.
        """
        free = [name for name in able if name not in self.limit.profiles]
        check_range(
            self.limit.parameter,
            given if isinstance(given, int) else tuple(self._bound_values(given, rank - 2)),
            least=self.limit.least,
            most=self.limit.most,
            where=f" on {profile}{supported_elsewhere('more', free)}",
            status=self.status,
        )

    def _bound_values(self, given: Tensor | tuple[int, ...] | None, axes: int) -> Iterator[int]:
        if isinstance(given, Tensor):
            yield from (size for size in given.shape[self.values] if size != 0)
        elif given is not None:
            # Padding before and after has two values for each dimension.
            count = len(given) // axes
            for axis in range(axes)[self.values]:
                yield from given[axis * count : (axis + 1) * count]


def bound(  # noqa: PLR0913  # the members of a limit
    parameter: str,
    allowed: tuple[int, int],
    where: str,
    *profiles: str,
    ranks: tuple[int, ...],
    values: slice = slice(None),
    transposed: bool | None = None,
    sentence: str = "",
    is_of_cube: bool = False,
) -> Bound:
    """A bound by the members of its limit, whose words say the kind of convolution, too."""
    least, most = allowed
    kinds = {None: "", True: "transposed is true", False: "transposed is false"}
    scope = ", ".join(part for part in (where, kinds[transposed]) if part)
    limit = Limit(parameter=parameter, where=scope, least=least, most=most, profiles=profiles)
    return Bound(
        limit=limit,
        ranks=ranks,
        values=values,
        transposed=transposed,
        sentence=sentence,
        is_of_cube=is_of_cube,
    )
