"""Warnings that replace the rejection which a case expects."""

from collections.abc import Iterable
from typing import Protocol

from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals.changes import ERROR_TABLE, source_of
from opserve_kernels.cases.registry import cases_of
from opserve_kernels.operator import Rule, RuleOrigin


class BrokenRule(Protocol):
    """A warning of an accepted call."""

    @property
    def code(self) -> int:
        """Number of the code that rejects the call if the rule is an error."""
        ...

    @property
    def name(self) -> str:
        """Name of that code."""
        ...

    @property
    def parameter(self) -> str:
        """The parameter that breaks the rule."""
        ...

    @property
    def sentence(self) -> str:
        """The page's sentence."""
        ...


def replaces_refusal(case: Case, broken: BrokenRule, *, warns: bool) -> bool:
    """Whether an accepted call may break a rule with only this warning.

    Args:
        case: A call that must be rejected.
        broken: The warning.
        warns: Whether the target treats rules of the page alone as warnings.
    """
    is_error = cases_of(case.operator).is_error
    return any(
        (not is_error(rule) or (warns and rule.origin is RuleOrigin.PAGE))
        and rule.status.name == case.expect == broken.name
        and (rule.parameter, rule.sentence) == (broken.parameter, broken.sentence)
        for rule in _rows(case)
    )


def _rows(case: Case) -> Iterable[Rule]:
    """The row that a suite's case breaks; for other cases, all rows of the operator."""
    rules = cases_of(case.operator).rules
    if not case.source.startswith(ERROR_TABLE):
        return rules
    return (rule for rule in rules if source_of(rule) == case.source)
