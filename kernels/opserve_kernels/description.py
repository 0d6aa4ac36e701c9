"""The description of an operator for clients, from the data that its checks use."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from sys import modules
from types import NoneType
from typing import Any, get_args, get_type_hints

from opserve_kernels.docstrings import descriptions_of
from opserve_kernels.operator import Limit, Operator, Rule
from opserve_kernels.tensor import DataType, Tensor

_KINDS: Mapping[object, str] = {
    Tensor: "tensor",
    tuple[int, ...]: "integers",
    tuple[bool, ...]: "booleans",
    int: "integer",
    bool: "boolean",
    str: "string",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An argument of an operator.

    Attributes:
        name: Name of the field.
        kind: "tensor", "integers", "booleans", "integer", "boolean", "string" or "members".
        written: Whether it is a tensor that the operator writes.
        description: The field's text in the schema's docstring.
        members: Members of an argument that has some, by their own names.
    """

    name: str
    kind: str
    written: bool
    description: str
    members: tuple["Parameter", ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportRow:
    """The support of an operator on one profile; see opserve_kernels.operator.Support.

    Attributes:
        profile: Name of the profile.
        dtypes: Dtypes that tensors may have.
        source_only: Those of them that only the vendor's newer source has, not its page.
        notes: Further remarks for a reader.
    """

    profile: str
    dtypes: tuple[DataType, ...]
    source_only: tuple[DataType, ...]
    notes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRow:
    """A rule of the error table; see opserve_kernels.operator.Rule.

    Attributes:
        code: The code as a number.
        reason: The code's name.
        domain: The code's family.
        parameter: The parameter that the error names.
        broken: The condition that breaks the rule.
        profiles: Profiles of the rule; empty means wherever the operator is supported.
        origin: Source of the rule, a RuleOrigin.
        sentence: The page's sentence in its own language, for "page" and "contradicted".
    """

    code: int
    reason: str
    domain: str
    parameter: str
    broken: str
    profiles: tuple[str, ...]
    origin: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorDescription:
    """The description of an operator for clients.

    Attributes:
        name: Snake case, as in the registry.
        call: The vendor's name.
        family: "aclnn", "tbe" or "ft_dsp".
        revision: Revision of the contract.
        parameters: Its arguments in the schema's order.
        support: A row for each profile that has it.
        limits: Documented bounds of values.
        errors: Its error table.
        documented_rules: Answer to a broken rule of the page alone if a session requests "error".
        header: The vendor's C header of the call, without its suffix; "" where there is none.
    """

    name: str
    call: str
    family: str
    revision: int
    parameters: tuple[Parameter, ...]
    support: tuple[SupportRow, ...]
    limits: tuple[Limit, ...]
    errors: tuple[ErrorRow, ...]
    documented_rules: str
    header: str


def describe(operator: Operator[Any]) -> OperatorDescription:
    """Returns the description of an operator."""
    return OperatorDescription(
        name=operator.name,
        call=operator.call,
        family=operator.family,
        revision=operator.revision,
        parameters=_parameters(operator.schema, operator.outputs),
        support=tuple(
            SupportRow(
                profile=profile,
                dtypes=support.dtypes,
                source_only=support.source_only,
                notes=support.notes,
            )
            for profile, support in operator.support.items()
        ),
        limits=operator.limits,
        errors=tuple(map(_error, operator.rules)),
        documented_rules=operator.documented_rules.value,
        # The schema's module names it beside the schema.
        header=modules[operator.schema.__module__].C_HEADER,
    )


def _error(rule: Rule) -> ErrorRow:
    return ErrorRow(
        code=rule.status.value,
        reason=rule.status.name,
        domain=rule.status.domain,
        parameter=rule.parameter,
        broken=rule.broken,
        profiles=rule.profiles,
        origin=rule.origin.value,
        sentence=rule.sentence,
    )


def _parameters(schema: type, outputs: tuple[str, ...] = ()) -> tuple[Parameter, ...]:
    hints = get_type_hints(schema)
    described = descriptions_of(schema)
    return tuple(
        _parameter(
            field.name,
            _without_none(hints[field.name]),
            written=field.name in outputs,
            description=described[field.name],
        )
        for field in fields(schema)  # pyright: ignore[reportArgumentType]  # a dataclass
    )


def _parameter(name: str, kind: object, *, written: bool, description: str) -> Parameter:
    if isinstance(kind, type) and is_dataclass(kind) and kind is not Tensor:
        return Parameter(
            name=name,
            kind="members",
            written=written,
            description=description,
            members=_parameters(kind),
        )
    return Parameter(name=name, kind=_KINDS[kind], written=written, description=description)


def _without_none(hint: object) -> object:
    (kind,) = (part for part in get_args(hint) if part is not NoneType)
    return kind
