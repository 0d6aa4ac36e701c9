"""Models of bodies and answers, made from the dataclasses of the core.

Every field of a body may be absent: the core decides what that means, not the framework.
Descriptions are those of the dataclasses' docstrings.
"""

import base64
import binascii
import json
from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from types import GenericAlias
from typing import (
    Annotated,
    Any,
    Optional,
    TypeVar,
    cast,
    get_origin,
    get_type_hints,
)

from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    create_model,
)
from pydantic import Field as Bounds
from starlette.requests import Request

from opserve_kernels.docstrings import description_of, descriptions_of
from opserve_kernels.registry import OPERATORS
from opserve_kernels.tensor import NUMPY_DTYPES, DataType, Tensor, member_of
from opserve_server.calls import MEMBERS_LIMIT, VALUES_LIMIT
from opserve_server.conformance.answers import Definition
from opserve_server.core.one_shot import TensorChoice
from opserve_server.core.operator_commands import GetWorkspaceSize
from opserve_server.core.session_request import SessionRequest
from opserve_server.core.time_slices import end_slice
from opserve_server.json_slices import check_values, parts_of
from opserve_server.rest_api.errors import wrong_form
from opserve_server.rest_api.response_models import documented
from opserve_server.schemas import nested_schemas

Model = TypeVar("Model", bound=BaseModel)
Member = TypeVar("Member")
Int64 = Annotated[int, Bounds(ge=-(2**63), le=2**63 - 1)]


def _from_base64(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError("base64")  # noqa: TRY004  # pydantic takes ValueError alone
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError("base64") from error


Base64 = Annotated[
    bytes,
    PlainValidator(_from_base64),
    WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
]


def _texts(value: object) -> object:
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        if all(isinstance(text, str) for text in members.values()):
            return members
    raise ValueError("texts by name")


Texts = Annotated[
    Mapping[str, str],
    PlainValidator(_texts),  # which reports only the first fault
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
]


def _definition(value: object) -> Definition:
    """A definition as text, parsed later; a body's limits bound it."""
    if isinstance(value, str):
        return Definition(value)
    if isinstance(value, dict):
        return Definition(json.dumps(value))
    raise ValueError("an object, or its text")


OneDefinition = Annotated[
    Definition,
    PlainValidator(_definition),
    WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "string"}]}),
]

SPELLINGS: Mapping[str, DataType] = {
    **DataType.__members__,
    **{dtype.name: data_type for data_type, dtype in NUMPY_DTYPES.items()},
}
"""Data types by the vendor's and NumPy's names, for the one-shot form."""


def _spelled(value: object) -> DataType:
    if isinstance(value, str) and value in SPELLINGS:
        return SPELLINGS[value]
    found = member_of(value, DataType)
    if found is None:
        raise ValueError(f"one of {', '.join(SPELLINGS)}")
    return found


SpelledDataType = Annotated[
    DataType,
    PlainValidator(_spelled),
    WithJsonSchema({"type": "string", "enum": list(SPELLINGS)}),
]
SESSION_TEXTS = ("profile", "accuracy", "documented_rules")
"""Members of a one-shot call that configure its session."""
STRICT = ConfigDict(extra="forbid", strict=True)
DOCUMENTED = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)
EXECUTOR = descriptions_of(GetWorkspaceSize)["executor"]


class FirstFault(FailFast):
    """Stops at the first fault of a long list, whose errors could otherwise take gigabytes.

    pydantic's own FailFast cannot be part of `X | None`.
    """

    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]  # its base has none


_List = Annotated[tuple[Member, ...], FirstFault(), Bounds(max_length=VALUES_LIMIT)]
_WIRE_TYPES: Mapping[object, Any] = {
    int: Int64,
    int | None: Optional[Int64],  # noqa: UP045  # to a checker, Annotated is no operand of |
    bytes: Base64,
    Mapping[str, str]: Texts,
    tuple[str, ...]: _List[str],
    Definition: OneDefinition,
    tuple[Definition, ...]: _List[OneDefinition],
    tuple[int, ...]: _List[Int64],
    tuple[int, ...] | None: Optional[_List[Int64]],  # noqa: UP045
    tuple[bool, ...]: _List[bool],
    tuple[bool, ...] | None: Optional[_List[bool]],  # noqa: UP045
}
_DATACLASSES: dict[type, type] = {}
"""The dataclass of a nested model."""


def derived(
    dataclass: type,
    name: str,
    *,
    without: Collection[str] = (),
    types: Mapping[object, Any] = _WIRE_TYPES,
    defaults: Mapping[str, object] | None = None,
) -> type[BaseModel]:
    """A model with the fields of a dataclass; dataclasses inside it become models as well.

    Args:
        dataclass: Source of the fields.
        name: Name of the schema in /openapi.json.
        without: Fields to leave out.
        types: Types on the wire, by type in the dataclass; the others are the same.
        defaults: Values of absent fields, where the dataclass has no default.
    """
    hints = get_type_hints(dataclass)
    described = descriptions_of(dataclass)
    wanted = [field for field in fields(dataclass) if field.name not in without]
    nested = {
        name: _some(part) if get_origin(hints[name]) is tuple else _nested(part) | None
        for name, part in nested_schemas(dataclass).items()
    }
    members: dict[str, Any] = {
        field.name: (
            Annotated[
                nested.get(field.name) or types.get(hints[field.name], hints[field.name]),
                Bounds(description=described[field.name]),
            ],
            _default(field, defaults or {}),
        )
        for field in wanted
    }
    return create_model(name, __config__=STRICT, __doc__=description_of(dataclass), **members)


@cache
def _nested(dataclass: type) -> type[BaseModel]:
    """The model of a nested dataclass; the same at every place."""
    model = derived(dataclass, f"{dataclass.__name__}Body")
    _DATACLASSES[model] = dataclass
    return model


def _some(dataclass: type) -> Any:  # noqa: ANN401  # a type that is made
    """The type of a list of nested dataclasses: there may be many, so they are not models.

    A dataclass has the configuration of its outer model.
    """
    members: Any = GenericAlias(tuple, (dataclass, ...))
    schema = {"type": "array", "items": TypeAdapter(documented(dataclass)).json_schema()}
    limit = Bounds(max_length=MEMBERS_LIMIT)
    return Annotated[members, FirstFault(), limit, WithJsonSchema(schema)]


def _default(field: Field[Any], defaults: Mapping[str, object]) -> object:
    if field.default_factory is not MISSING:
        return Bounds(default_factory=field.default_factory)
    return defaults[field.name] if field.default is MISSING else field.default


def parse(model: type[Model], document: bytes, *, inside: str = "") -> Model:
    """Parses a JSON document; an empty one is an empty object.

    Args:
        model: Its schema.
        document: The bytes.
        inside: Name of the part of a body that it is.

    Raises:
        InvalidArgument: 100000, it is not JSON or not of the model's form, or has too many values
            or bytes.
    """
    check_values(document, inside or "body")
    return _parse(model, document, inside=inside)


def _parse(
    model: type[Model], document: bytes, *, inside: str = "", elements_before: int = 0
) -> Model:
    """Parses a small document; its earlier parts had some elements of its list."""
    try:
        return model.model_validate_json(document or b"{}")
    except ValidationError as error:
        errors = error.errors(include_url=False)
        match errors[0]["loc"]:
            case (str(name), int(index), *others):
                errors[0]["loc"] = (name, index + elements_before, *others)
            case _:
                pass
        raise wrong_form(errors, model, inside=inside) from None


async def parsed_parts(
    model: type[Model], document: bytes, member: str
) -> AsyncGenerator[tuple[int, Model]]:
    """A large JSON document in parts of its schema, each with the number of earlier elements.

    Yields to other calls between two parts; raises as json_slices.parts_of does.
    """
    elements = 0
    async for part in parts_of(document, member):
        parsed = _parse(model, part, elements_before=elements)
        yield elements, parsed
        elements += len(getattr(parsed, member, ()))
        await end_slice()


async def parsed_values(model: type[Model], document: bytes, member: str) -> dict[str, Any]:
    """The fields of a large JSON document for the core."""
    values: dict[str, Any] = {}
    async for elements, parsed in parsed_parts(model, document, member):
        if elements or values:
            values[member] += values_of(parsed)[member]
        else:
            values = values_of(parsed)
    return values


def parse_query(model: type[Model], request: Request) -> Model:
    """Parses the parameters of a query.

    Raises:
        InvalidArgument: 100000, they are not of the model's form.
    """
    query = dict(request.query_params) if request.scope["query_string"] else {}
    try:
        return model.model_validate_strings(query)
    except ValidationError as error:
        raise wrong_form(error.errors(include_url=False), model) from None


def values_of(body: BaseModel) -> dict[str, Any]:
    """A body's fields for the core."""
    return {name: _value(value) for name, value in body}


def _value(value: object) -> object:
    dataclass = _DATACLASSES.get(type(value))
    if dataclass is not None and isinstance(value, BaseModel):
        return dataclass(**values_of(value))
    return value


TensorBody = derived(Tensor, "Tensor", defaults={"shape": (), "dtype": DataType.UNDEFINED})
TensorChoiceBody = derived(
    TensorChoice, "TensorChoice", types={**_WIRE_TYPES, DataType | None: SpelledDataType | None}
)
_DATACLASSES[TensorBody] = Tensor
_DATACLASSES[TensorChoiceBody] = TensorChoice
_ARGUMENT_TYPES = {**_WIRE_TYPES, Tensor | None: TensorBody | None}
_RUN_TYPES = {**_WIRE_TYPES, Tensor | None: TensorChoiceBody | None}

ARGUMENTS: Mapping[str, type[BaseModel]] = {
    operator.name: derived(operator.schema, f"{operator.call}Arguments", types=_ARGUMENT_TYPES)
    for operator in OPERATORS.values()
}
"""Arguments of an operator, by its name."""

RUN_ARGUMENTS: Mapping[str, type[BaseModel]] = {
    operator.name: derived(operator.schema, f"{operator.call}RunArguments", types=_RUN_TYPES)
    for operator in OPERATORS.values()
}
"""Arguments of an operator in the one-shot form, by its name."""


class OpenSessionBody(BaseModel):
    """A lease on a device of a profile with all of the tags, at once or after a wait."""

    model_config = DOCUMENTED

    profile: str = ""
    """Name or alias of the profile; empty: the default."""
    tags: tuple[str, ...] = ()
    """Tags that the device must have, all of them."""
    lease_s: float = 0.0
    """Seconds that the session lives after its last call; 0: the default."""
    workspace_limit_bytes: Annotated[int, Bounds(ge=0, le=2**64 - 1)] = 0
    """Limit of the workspaces of its plans, bytes; 0: any size."""
    priority: Annotated[int, Bounds(ge=-(2**31), le=2**31 - 1)] = 0
    """Priority of the request in the device queue, up to the limit of its tenant."""
    wait_s: float = 0.0
    """Longest wait for such a device, seconds; 0: none."""
    exclusive: bool = False
    """Whether no other session may use the device meanwhile."""
    exclusive_s: float = 0.0
    """Seconds after which an exclusive session ends; 0: the longest."""
    accuracy: str = ""
    """Computation of sums: "direct" (also where it is empty) or "fast"."""
    documented_rules: str = ""
    """Answer to a broken rule of the vendor's page alone: "error" (also where empty) or "warn"."""
    here: bool = False
    """Whether this service answers, even if another service of the farm has room."""
    tell_after_s: float = 0.0
    """Seconds after which a waiting request is answered with 202; the same request with the same
    Idempotency-Key then continues to wait. 0: the answer comes when the wait is over."""


def planned_body(operator: str) -> type[BaseModel]:
    """The body of one operator's getWorkspaceSize."""
    arguments = ARGUMENTS[operator]
    members: dict[str, Any] = {
        "executor": (Annotated[Int64, Bounds(description=EXECUTOR)], 0),
        "arguments": (Annotated[arguments, Bounds(description="The arguments.")], arguments()),
    }
    call = OPERATORS[operator].call
    doc = f"Phase one of {call}."
    return create_model(f"{call}GetWorkspaceSize", __config__=STRICT, __doc__=doc, **members)


def run_body(operator: str) -> type[BaseModel]:
    """The `args` part of one operator's one-shot call."""
    arguments = RUN_ARGUMENTS[operator]
    described = descriptions_of(SessionRequest)
    members: dict[str, Any] = {
        name: (Annotated[str, Bounds(description=described[name])], "") for name in SESSION_TEXTS
    }
    members["arguments"] = (
        Annotated[arguments, Bounds(description="The arguments.")],
        arguments(),
    )
    call = OPERATORS[operator].call
    doc = f"A whole call of {call}."
    return create_model(f"{call}Run", __config__=STRICT, __doc__=doc, **members)


RUN_BODIES: Mapping[str, type[BaseModel]] = {name: run_body(name) for name in OPERATORS}
"""The `args` part of a one-shot call, by the operator's name."""
