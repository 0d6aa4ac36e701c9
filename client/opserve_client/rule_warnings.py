"""Broken rules of the vendor's page, as Python warnings."""

import inspect
import warnings
from collections.abc import Iterable

from opserve.v1.command_service_pb2 import CommandResult
from opserve.v1.operator_service_pb2 import RuleWarning

_PACKAGE = __name__.partition(".")[0]


class DocumentedRuleWarning(UserWarning):
    """A call breaks a rule that only the vendor's page states; the service accepts the call.

    Attributes:
        code: The code that rejects the call where documented rules are errors, such as 161002.
        name: The vendor's name of the code, such as "ACLNN_ERR_PARAM_INVALID".
        domain: Family of the code: "opserve", "opserve.tbe" or "opserve.ft_dsp".
        parameter: The parameter that breaks the rule.
        given: The value that was given.
        allowed: The values that the page allows.
        sentence: The page's sentence, in the page's own language.
    """

    def __init__(self, broken: RuleWarning) -> None:
        super().__init__(
            f"{broken.parameter} has {broken.given}, and the page allows {broken.allowed} "
            f"({broken.name}): {broken.sentence}"
        )
        self.code, self.name, self.domain = broken.code, broken.name, broken.domain
        self.parameter, self.given, self.allowed = broken.parameter, broken.given, broken.allowed
        self.sentence = broken.sentence


def warn_of(broken: Iterable[RuleWarning]) -> tuple[DocumentedRuleWarning, ...]:
    """Issues a warning for each broken rule, at the first caller outside this package."""
    found = tuple(map(DocumentedRuleWarning, broken))
    for one in found:
        warnings.warn(one, stacklevel=_level_of_caller())
    return found


def warn_of_results(results: Iterable[CommandResult]) -> None:
    """Issues a warning for each broken rule in the answers of a batch."""
    for result in results:
        if result.HasField("get_workspace_size"):
            warn_of(result.get_workspace_size.warnings)


def _level_of_caller() -> int:
    """Returns the level of the first caller outside this package, as `warnings.warn` counts."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame, level = frame.f_back, level + 1
    return level
