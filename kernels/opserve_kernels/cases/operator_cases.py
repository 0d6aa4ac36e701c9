"""An operator's record for conformance: its calls, and the functions that describe one."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from opserve_kernels.cases.case import Case, Value
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.forms.drawing import Numbers
from opserve_kernels.cases.forms.form import Call, Form
from opserve_kernels.cases.projection import Projection
from opserve_kernels.cases.refusals.changes import Breach, Row
from opserve_kernels.cases.sum import Sum
from opserve_kernels.number_formats import Operands
from opserve_kernels.operator import DocumentedRules, Rule, RuleOrigin, Support

Entries = tuple[int, ...]
Steps = tuple[Entries, Entries, Entries]
"""Stride, padding and dilation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    """Projections of outputs of large calls.

    Attributes:
        channel_axes: By output, the axis of its channels.
        call: Function that returns the call, and its operands, whose output is a case's projection.
    """

    channel_axes: Mapping[str, int]
    call: Callable[[Case, str, Projection, Mapping[str, Array]], tuple[Case, Mapping[str, Array]]]


def _unchanged(case: Case, _: Collection[str]) -> Mapping[str, Value]:
    return case.arguments


def _as_given(_: Case) -> Mapping[str, Operands]:
    return {}


def _supports_all(case: Case) -> Case | None:
    return case


def _always(_: Case) -> bool:
    return True


def _nothing(_: Case) -> Iterator[str]:
    return iter(())


def _one_group(_: Case) -> tuple[int, int]:
    return 1, 1


def _none(_: Case) -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorCases:
    """The data of one operator for `cases` and `verdict`.

    Attributes:
        support: Support on each profile that has the operator.
        rules: The error table.
        documented_rules: The operator's own answer to a broken rule of the page alone.
        forms: The forms, simple ones first.
        rarer_forms: Forms of `standard` alone, which do not change the turns of dtypes of the
            others.
        layers: Calls of networks that are in use, each with the network's name.
        drawn: Function that returns a call from random numbers.
        breaches: A breach of each rule, by parameter and words of the rule.
        sums: Function that returns the sums of a case's outputs; the case must be one that
            succeeds.
        features: Features of a full suite, besides those of every operator.
        tried: Function that returns those features that a case's arguments decide.
        steps: Stride, padding and dilation of a case; None where calls have no such arguments.
        groups: Groups of channels of a case, and the channels of one.
        supported: Function that returns the call as its profile supports it, with dtypes that are
            all supported where `checks_dtypes`; None if the profile does not support it.
        checks_dtypes: Whether every tensor must have a dtype of `support`.
        follows_the_page: Whether a supported call is accepted by default.
        reference_arguments: The arguments of the call of `reference` for some outputs.
        operands: Roundings of a case's inputs before they are multiplied or added; inputs without
            one are read as given.
        unrounded: Outputs that sum operands as given.
        projected: Projections of outputs of large calls; None without projections.
        contributing: Numbers of elements of each output that sum products; empty if they are not
            counted.
    """

    support: Mapping[str, Support]
    rules: tuple[Rule, ...]
    documented_rules: DocumentedRules = DocumentedRules.ERROR
    forms: Callable[[], Iterator[Form]]
    rarer_forms: Callable[[], Iterator[Form]] = lambda: iter(())
    layers: Callable[[], Iterator[tuple[str, Call]]] = lambda: iter(())
    drawn: Callable[[Numbers], Call]
    breaches: Callable[[], Mapping[Row, Breach]]
    sums: Callable[[Case], tuple[Sum, ...]]
    features: tuple[str, ...]
    tried: Callable[[Case], Iterator[str]] = _nothing
    steps: Callable[[Case], Steps] | None = None
    groups: Callable[[Case], tuple[int, int]] = _one_group
    supported: Callable[[Case], Case | None] = _supports_all
    checks_dtypes: bool = True
    follows_the_page: Callable[[Case], bool] = _always
    reference_arguments: Callable[[Case, Collection[str]], Mapping[str, Value]] = _unchanged
    operands: Callable[[Case], Mapping[str, Operands]] = _as_given
    unrounded: tuple[str, ...] = ()
    projected: Projected | None = None
    contributing: Callable[[Case], Mapping[str, int]] = _none

    def is_error(self, rule: Rule) -> bool:
        """Whether a call that breaks a rule is rejected by default."""
        if rule.origin is RuleOrigin.PAGE:
            return self.documented_rules is DocumentedRules.ERROR
        return rule.origin is not RuleOrigin.CONTRADICTED
