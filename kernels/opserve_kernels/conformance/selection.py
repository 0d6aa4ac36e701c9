"""Selection of cases from a suite: by operator, profile and patterns."""

from collections.abc import Iterable
from dataclasses import dataclass

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.reading import refusal, shown
from opserve_kernels.cases.suite import matches
from opserve_kernels.operators import OPERATOR_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Conditions on a case; an empty one excludes nothing.

    Attributes:
        operators: Accept only cases of these operators.
        patterns: Accept only cases that match one of these patterns (matches).
        profile: Accept only cases of this profile.

    Raises:
        InvalidArgument: 100000, no operator has that name: a misspelt one would select nothing.
    """

    operators: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    profile: str = ""

    def __post_init__(self) -> None:
        """Rejects an unknown operator."""
        for operator in self.operators:
            if operator not in OPERATOR_NAMES:
                allowed = ", ".join(OPERATOR_NAMES)
                raise refusal("operator", given=shown(operator)[1:-1], allowed=allowed)

    def of(self, cases: Iterable[Case]) -> tuple[Case, ...]:
        """The cases that meet all conditions, in their order."""
        return tuple(
            case
            for case in cases
            if (not self.operators or case.operator in self.operators)
            and self.profile in {"", case.profile}
            and (not self.patterns or matches(case, self.patterns))
        )
