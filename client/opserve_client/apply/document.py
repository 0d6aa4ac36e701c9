"""The file of `opserve apply`: tenants with their quotas, keys and trusted identities."""

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from opserve_client.files import FileError
from opserve_kernels.user_input import bytes_of

UNLIMITED = "none"
"""A limit that removes the limit."""


def _an_empty_part(value: object) -> object:
    """`vision:` without members is a tenant or key with the defaults."""
    return {} if value is None else value


def _a_limit(value: object) -> object:
    if value == UNLIMITED:
        return None
    if value is None:
        raise ValueError(f"no value: give a number, or {UNLIMITED} for no limit")
    return value


def _a_size(value: object) -> object:
    return bytes_of(value) if isinstance(value, str) and value != UNLIMITED else value


Scope: TypeAlias = Literal["operate", "metrics", "admin"]
Scopes = Annotated[list[Scope], Field(min_length=1)]
TenantName = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,63}$")]
Principal = Annotated[str, Field(pattern=r"^[A-Za-z0-9._@-]{1,63}$")]
Text = Annotated[str, Field(min_length=1)]
Count = Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_a_limit)]
Size = Annotated[Count, BeforeValidator(_a_size)]
Rate = Annotated[
    Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, BeforeValidator(_a_limit)
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

    scopes: Scopes = ["operate"]
    days: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
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
    audience: Text
    claims: Annotated[dict[Text, Text], Field(min_length=1)]
    principal: Principal
    scopes: Scopes = ["operate"]


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

    weight: Annotated[int, Field(ge=1, le=1000)] | None = None
    priority_limit: Annotated[int, Field(ge=0, le=1000)] | None = None
    disabled: bool | None = None
    quota: QuotaPart = QuotaPart()
    keys: dict[Principal, Annotated[KeyPart, BeforeValidator(_an_empty_part)]] = {}
    identities: list[IdentityPart] = []


class Document(_Part):
    """The whole file: tenants by name."""

    tenants: dict[TenantName, Annotated[TenantPart, BeforeValidator(_an_empty_part)]]


def read_document(path: Path) -> Document:
    """Reads and validates a YAML file.

    Raises:
        FileError: The file cannot be read, is no YAML, or has an invalid value; the message has its
            line and path.
    """
    text = _text_of(path)
    try:
        yaml: Any = YAML(typ="safe", pure=True)
        return Document.model_validate(yaml.load(text))
    except MarkedYAMLError as error:
        raise FileError(f"{path}{_reported(error)}") from error
    except YAMLError as error:
        raise FileError(f"{path}: no YAML: {error}") from error
    except ValidationError as error:
        raise FileError("; ".join(_problems(path, text, error))) from error


def _reported(error: Any) -> str:  # noqa: ANN401  # ruamel.yaml has no types
    """Returns the line, where it is known, and the reason of an error of ruamel.yaml."""
    mark = error.problem_mark or error.context_mark
    line = "" if mark is None else f":{mark.line + 1}"
    return f"{line}: no YAML: {error.problem or error.context}"


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not UTF-8: {error.reason}") from error


def _problems(path: Path, text: str, error: ValidationError) -> list[str]:
    yaml: Any = YAML()
    tree = yaml.load(text)
    return [
        f"{path}:{_line(tree, problem['loc'])}: {_place(problem['loc'])}: {_reason(problem)}"
        for problem in error.errors()
    ]


def _reason(problem: Any) -> str:  # noqa: ANN401  # a TypedDict of pydantic_core
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{message[:1].lower()}{message[1:]}, given {problem['input']!r}"


def _place(location: Sequence[Hashable]) -> str:
    return ".".join(str(part) for part in location if part != "[key]") or "the document"


def _line(tree: Any, location: Sequence[Hashable]) -> int:  # noqa: ANN401  # nodes of ruamel.yaml
    """Returns the line of the innermost part of a location that the file has."""
    line, node = 0, tree
    for part in location:
        positions: Any = getattr(node, "lc", None)
        if positions is None or part not in (positions.data or {}):
            break
        line = positions.data[part][0]
        node = node[part]
    return line + 1
