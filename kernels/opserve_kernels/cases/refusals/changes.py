"""Calls that break one rule of a contract: a right call, changed in a place or two."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from opserve_kernels.cases.case import Case, TensorCase, Value
from opserve_kernels.operator import Rule, RuleOrigin

ERROR_TABLE = "error table: "
"""Prefix of the source of a case that breaks a row of an error table."""
PAGE_RULE = "page rule"
"""Tag of a case that a session with DocumentedRules.WARN accepts."""
Changes = Mapping[str, object]
"""New values by path: "stride", "para_dict.strides", "input.shape"; None removes an argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A call that breaks a rule.

    Attributes:
        case: A call on a profile with the rule; it breaks none, unless there are no changes.
        changes: Changes of the call.
    """

    case: Case
    changes: Changes = field(default_factory=dict[str, object])


Row = tuple[str, str]
"""Parameter and words of a rule."""


def row_of(rule: Rule) -> Row:
    """The key of a rule."""
    return rule.parameter, rule.broken


def source_of(rule: Rule) -> str:
    """The source of the case that breaks a rule."""
    return f"{ERROR_TABLE}{rule.parameter}: {rule.broken}"


def refused(rule: Rule, breach: Breach) -> Case:
    """The call that breaks a rule; its status is the contract's."""
    return replace(
        changed(breach.case, breach.changes),
        expect=rule.status.name,
        tags=("refused", PAGE_RULE) if rule.origin is RuleOrigin.PAGE else ("refused",),
        source=source_of(rule),
    )


def changed(case: Case, changes: Changes) -> Case:
    """The same call with other arguments."""
    tensors = dict(case.tensors)
    arguments: dict[str, Value] = dict(case.arguments)
    for path, value in changes.items():
        name, _, member = path.partition(".")
        if name in tensors and member:
            tensors[name] = _with(tensors[name], member, value)
        elif name in tensors:
            del tensors[name]
        else:
            _put(arguments, path.split("."), value)
    return replace(case, tensors=tensors, arguments=arguments)


def thin(case: Case) -> Case:
    """The same call whose tensors all repeat one element: even large ones need no memory."""
    tensors: dict[str, TensorCase] = {}
    for name, tensor in case.tensors.items():
        fill = tensor.fill and replace(tensor.fill, plain=None)
        tensors[name] = replace(tensor, strides=(0,) * len(tensor.shape), fill=fill)
    return replace(case, tensors=tensors)


def _with(tensor: TensorCase, member: str, value: object) -> TensorCase:
    change: dict[str, Any] = {member: value}
    return replace(tensor, **change)


def _put(members: dict[str, Any], path: list[str], value: object) -> None:
    name, *inner = path
    if inner:
        members[name] = dict(members.get(name, {}))
        _put(members[name], inner, value)
    elif value is None:
        members.pop(name, None)
    else:
        members[name] = value
