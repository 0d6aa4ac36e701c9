"""Selection of cases from a suite: by operator, profile and patterns."""

from collections.abc import Iterable
from dataclasses import dataclass

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.reading import refusal, shown
from opserve_kernels.cases.suite import matches
from opserve_kernels.operators import operators_by_name
from opserve_kernels.user_input import choices


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Conditions on a case; an empty one excludes nothing.

    Attributes:
        operators: Accept only cases of these operators, by their names or the vendor's.
        patterns: Accept only cases that match one of these patterns (matches).
        profile: Accept only cases of this profile.

    Raises:
        InvalidArgument: 100000, no operator has that name: a misspelt one would select nothing.
    """

    operators: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    profile: str = ""

    def __post_init__(self) -> None:
        """Replaces the vendor's names by those of opserve; rejects an unknown operator."""
        found = tuple(map(_operator_named, self.operators))
        object.__setattr__(self, "operators", found)

    def of(self, cases: Iterable[Case]) -> tuple[Case, ...]:
        """The cases that meet all conditions, in their order."""
        return tuple(
            case
            for case in cases
            if (not self.operators or case.operator in self.operators)
            and self.profile in {"", case.profile}
            and (not self.patterns or matches(case, self.patterns))
        )


def _operator_named(name: str) -> str:
    names = operators_by_name()
    if name not in names:
        raise refusal("operator", given=shown(name)[1:-1], allowed=choices(names, name))
    return names[name]
