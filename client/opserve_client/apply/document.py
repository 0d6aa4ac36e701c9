"""The file of `opserve apply`: tenants with their quotas, keys and trusted identities.

A validator raises ValueError with the allowed values, as `opserve_client.apply.source` expects.
"""

import json
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from opserve_client.apply.source import KEY, Source, place
from opserve_client.files import FileError
from opserve_client.request_forms import KEY_DAYS, LIMIT_MAXIMUM
from opserve_kernels.errors import rejection
from opserve_kernels.user_input import bytes_of, choices, similar_name

UNLIMITED = "none"
"""A limit that removes the limit."""
SCOPES = ("operate", "metrics", "admin")
OPERATE = ("operate",)
KEYLESS_TENANT = "local"
"""Tenant of callers of a service without keys."""
IDENTIFYING_CLAIMS = (
    *("sub", "repository", "repository_id", "repository_owner", "repository_owner_id"),
    *("project_path", "project_id", "namespace_path", "namespace_id"),
)
"""Claims of which an identity needs one: any user of a public issuer has tokens with the others."""
_CLAIMS_LIMIT = 16
_CLAIM_CHARACTERS = 512
_KEY_PREFIX = "opserve_"
_TENANT = re.compile(r"[a-z0-9-]{1,63}")
_PRINCIPAL = re.compile(r"[A-Za-z0-9._@-]{1,63}")
_CLAIM = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,127}")
_NO_TENANT = re.compile(r"[^a-z0-9]+")


def _an_empty_part(value: object) -> object:
    """`vision:` without members is a tenant or key with the defaults."""
    return {} if value is None else value


def _number(
    least: float, most: float, *, form: str = "", kinds: tuple[type, ...] = (int, float)
) -> Callable[[object], object]:
    """Returns the check of a number; true and false are none."""
    allowed = form or f"a number, {least:.15g} to {most:.15g}"

    def checked(value: object) -> object:
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        if not (is_number and least <= value <= most):  # type: ignore[operator]  # a number
            raise ValueError(allowed)
        return value

    return checked


def _whole(least: int, most: int) -> Callable[[object], object]:
    return _number(least, most, form=f"a whole number, {least} to {most}", kinds=(int,))


def _limit(check: Callable[[object], object], form: str) -> Callable[[object], object]:
    """Returns the check of a limit, which may be none."""

    def checked(value: object) -> object:
        if value == UNLIMITED:
            return None
        try:
            return check(value)
        except ValueError:
            raise ValueError(f"{form}, or {UNLIMITED} for no limit") from None

    return checked


def _a_size(value: object) -> object:
    return _whole(0, LIMIT_MAXIMUM)(bytes_of(value) if isinstance(value, str) else value)


def _a_tenant(value: object) -> object:
    if not isinstance(value, str) or not _TENANT.fullmatch(value):
        likely = _NO_TENANT.sub("-", str(value).lower()).strip("-")[:63]
        question = f"; did you mean {likely}?" if likely else ""
        raise ValueError(f"names of 1 to 63 lower case letters, digits and hyphens{question}")
    if value == KEYLESS_TENANT:
        raise ValueError("names other than that of callers without a key")
    return value


def _a_principal(value: object) -> object:
    is_name = isinstance(value, str) and _PRINCIPAL.fullmatch(value)
    if not is_name or str(value).startswith(_KEY_PREFIX):
        raise ValueError(f"names of 1 to 63 letters, digits and ._@-, not like {_KEY_PREFIX}x")
    return value


def _a_text(value: object) -> object:
    if not isinstance(value, str) or not value:
        raise ValueError("text that is not empty, in quotes where YAML takes it for a number")
    return value


def _an_audience(value: object) -> object:
    is_text = isinstance(value, str) and 0 < len(value) <= _CLAIM_CHARACTERS
    if not (is_text and str(value).isprintable()):
        raise ValueError(f"text of 1 to {_CLAIM_CHARACTERS} printable characters")
    return value


def _a_scope(value: object) -> object:
    if value not in SCOPES:
        raise ValueError(choices(SCOPES, str(value)))
    return value


def _scopes(value: object) -> object:
    if not isinstance(value, list) or not value:
        raise ValueError(f"a list of {', '.join(SCOPES)}: [operate]")
    return value  # pyright: ignore[reportUnknownVariableType]  the next check is that of its items


def _the_claims(claims: dict[str, str]) -> dict[str, str]:
    if len(claims) > _CLAIMS_LIMIT:
        raise ValueError(f"at most {_CLAIMS_LIMIT} claims")
    for name, value in claims.items():
        pair = f"{name}={value}"
        if not (_CLAIM.fullmatch(name) and pair.isprintable()):
            raise ValueError("names and values of claims: {repository: farm/kernels}")
        if len(pair) > _CLAIM_CHARACTERS:
            raise ValueError(f"claims of at most {_CLAIM_CHARACTERS} characters with their names")
    if not claims.keys() & set(IDENTIFYING_CLAIMS):
        raise ValueError(f"claims with one of {', '.join(IDENTIFYING_CLAIMS)}")
    return claims


Scopes = Annotated[list[Annotated[str, BeforeValidator(_a_scope)]], BeforeValidator(_scopes)]
TenantName = Annotated[str, BeforeValidator(_a_tenant)]
Principal = Annotated[str, BeforeValidator(_a_principal)]
Text = Annotated[str, BeforeValidator(_a_text)]
Audience = Annotated[str, BeforeValidator(_an_audience)]
Claims = Annotated[dict[Text, Text], AfterValidator(_the_claims)]
Weight = Annotated[int, BeforeValidator(_whole(1, 1000))]
PriorityLimit = Annotated[int, BeforeValidator(_whole(0, 1000))]
Days = Annotated[float, BeforeValidator(_number(*KEY_DAYS))]
_COUNTS = f"a whole number, 0 to {LIMIT_MAXIMUM}"
Count: TypeAlias = Annotated[int | None, BeforeValidator(_limit(_whole(0, LIMIT_MAXIMUM), _COUNTS))]
Size: TypeAlias = Annotated[
    int | None,
    BeforeValidator(_limit(_a_size, "a whole number of bytes, such as 268435456 or 256MiB")),
]
Rate: TypeAlias = Annotated[
    float | None,
    BeforeValidator(_limit(_number(0, LIMIT_MAXIMUM), f"a number, 0 to {LIMIT_MAXIMUM}")),
]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class QuotaPart(_Part):
    """Limits of a tenant, as in the message Quota; None is no limit."""

    device_memory_bytes: Size = None
    sessions: Count = None
    buffers: Count = None
    executors: Count = None
    streams: Count = None
    queued_entries: Count = None
    calls_per_s: Rate = None
    bytes_in_flight: Size = None
    device_seconds_per_day: Rate = None

    @property
    def limits(self) -> dict[str, float | None]:
        """The limits that the document has, by resource."""
        given: dict[str, float | None] = self.model_dump(exclude_unset=True)
        return given


class KeyPart(_Part):
    """A live key of a principal.

    Attributes:
        scopes: Scopes of the key.
        days: Days until a new key expires; None means never.
        file: File for a new key, relative to the folder of the document; None shows it once.
    """

    scopes: Scopes = list(OPERATE)
    days: Days | None = None
    file: Text | None = None


class IdentityPart(_Part):
    """A trusted identity: tokens of an issuer with these claims authenticate a principal.

    Attributes:
        issuer: Claim `iss`.
        audience: Claim `aud`.
        claims: Further claims that a token must have.
        principal: Name of the caller within the tenant.
        scopes: Scopes of the caller.
    """

    issuer: Text
    audience: Audience
    claims: Claims
    principal: Principal
    scopes: Scopes = list(OPERATE)


class TenantPart(_Part):
    """A tenant. A member that is None or absent is left alone.

    Attributes:
        weight: Share of a device relative to other tenants.
        priority_limit: Greatest priority of its session requests.
        disabled: Whether the service rejects its keys.
        quota: Limits of its resources.
        keys: Keys by principal.
        identities: Trusted identities.
    """

    weight: Weight | None = None
    priority_limit: PriorityLimit | None = None
    disabled: bool | None = None
    quota: QuotaPart = QuotaPart()
    keys: dict[Principal, Annotated[KeyPart, BeforeValidator(_an_empty_part)]] = {}
    identities: list[IdentityPart] = []


class Document(_Part):
    """The whole file: tenants by name."""

    tenants: dict[TenantName, Annotated[TenantPart, BeforeValidator(_an_empty_part)]]


def document_of(source: Source) -> Document:
    """Validates the content of a file.

    Raises:
        FileError: A value is invalid; each line of the message is a sentence with the value's line
            and path.
    """
    try:
        return Document.model_validate(source.content)
    except ValidationError as error:
        problems = error.errors()
    # A misspelt member is one mistake, although the member that it means is missing, too.
    misspelt = {
        (*where, similar_name(str(name), _members_at(where)))
        for *where, name in (one["loc"] for one in problems if one["type"] == "extra_forbidden")
    }
    found = [one for one in problems if one["type"] != "missing" or one["loc"] not in misspelt]
    raise FileError("\n".join(source.problem(one["loc"], _sentence(one)) for one in found))


def _sentence(problem: Any) -> str:  # noqa: ANN401  # a TypedDict of pydantic_core
    """Returns the sentence of an error of pydantic."""
    *where, name = problem["loc"] or ("",)
    kind = problem["type"]
    if kind == "extra_forbidden":
        return rejection(place(where), given=name, allowed=choices(_members_at(where), str(name)))
    if kind == "value_error":
        allowed = str(problem["ctx"]["error"])
        if name == KEY:
            return rejection(place(where[:-1]), given=where[-1], allowed=allowed)
    else:
        allowed = "true or false" if kind == "bool_type" else _form_at(problem["loc"])
    given = "" if kind == "missing" else _shown(problem["input"])
    return rejection(place(problem["loc"]), given=given, allowed=allowed)


def _shown(value: object) -> str:
    """Formats a value in one line; "" for none."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, default=str, ensure_ascii=False, skipkeys=True)


def _members_at(location: Sequence[Hashable]) -> tuple[str, ...]:
    """Returns the members of the mapping at a location."""
    return tuple(_part_at(location).model_fields)


def _part_at(location: Sequence[Hashable]) -> type[_Part]:
    match location:
        case []:
            return Document
        case [_, _]:
            return TenantPart
        case [_, _, "quota"]:
            return QuotaPart
        case [_, _, "keys", _]:
            return KeyPart
        case _:
            return IdentityPart


def _form_at(location: Sequence[Hashable]) -> str:
    """Returns the form of the mapping, list or required text at a location."""
    match location:
        case ["tenants"]:
            return "a mapping of tenants by name: {vision: {weight: 3}}"
        case [_, _, "keys"]:
            return "a mapping of keys by principal: {laptop: {days: 90}}"
        case [_, _, "identities"]:
            return f"a list of mappings with {', '.join(IdentityPart.model_fields)}"
        case [_, _, "identities", _, member]:
            return _REQUIRED[str(member)]
        case _:
            return f"a mapping with {', '.join(_members_at(location))}"


_REQUIRED = {
    "issuer": "the claim iss of the tokens",
    "audience": "the claim aud of the tokens",
    "claims": "a mapping of claims: {repository: farm/kernels}",
    "principal": "the name of the caller within the tenant",
}
"""Members that an identity needs."""
