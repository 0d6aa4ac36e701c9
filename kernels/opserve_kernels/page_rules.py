"""The answer to a call that breaks a rule which only the vendor's page states: error or warning."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from opserve_kernels.errors import InvalidArgument
from opserve_kernels.operator import DocumentedRules, Plan, Rule, RuleOrigin, RuleWarning

_OF_THE_PAGE = (RuleOrigin.PAGE, RuleOrigin.CONTRADICTED)


class PageRules:
    """The page's rules of an operator, for the checks of one call."""

    def __init__(self, rules: Sequence[Rule], profile: str, *answers: DocumentedRules) -> None:
        """Takes the operator's error table.

        Args:
            rules: All rows.
            profile: Profile of the device; a rule of other profiles is not broken.
            answers: Answers of the operator and of the session; one WARN is enough.
        """
        self._rules = rules
        self._profile = profile
        self._warns = DocumentedRules.WARN in answers
        self._warnings: list[RuleWarning] = []

    @contextmanager
    def rule(self, broken: str) -> Generator[None]:
        """Runs a check of one of the page's rules; its error may become a warning.

        Args:
            broken: Words of the rule in the error table, without the profiles at their end; the
                check's error names the parameter.

        Raises:
            InvalidArgument: The rule is broken, and is an error of this call.
            KeyError: The error table has no such rule of the page.
        """
        try:
            yield
        except InvalidArgument as error:
            rule = self._row(error.parameter, broken)
            if rule is not None and rule.origin is RuleOrigin.PAGE and not self._warns:
                raise
            if rule is not None:
                self._warnings.append(_warning(rule, error))

    def with_warnings(self, plan: Plan) -> Plan:
        """Returns the plan of the checked call, with its warnings."""
        return replace(plan, warnings=tuple(self._warnings))

    def _row(self, parameter: str, broken: str) -> Rule | None:
        """The row for the profile; None if the rule is one of other profiles only."""
        rows = [
            rule
            for rule in self._rules
            if rule.origin in _OF_THE_PAGE
            and rule.parameter == parameter
            and rule.broken.startswith(broken)
        ]
        if not rows:
            raise KeyError(parameter, broken)
        holding = (rule for rule in rows if not rule.profiles or self._profile in rule.profiles)
        return next(holding, None)


def _warning(rule: Rule, error: InvalidArgument) -> RuleWarning:
    return RuleWarning(
        status=rule.status,
        parameter=rule.parameter,
        given=error.given,
        allowed=error.allowed,
        sentence=rule.sentence,
    )
