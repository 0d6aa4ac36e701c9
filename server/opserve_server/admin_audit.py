"""Audit entries of administration calls."""

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, fields
from typing import Any, cast

from opserve_kernels.errors import shortened
from opserve_server.calls import caller
from opserve_server.core.audit import AuditEntry
from opserve_server.core.errors import OpserveError
from opserve_server.core.observations import CALL

_PLAIN = re.compile(r"[\w.:@,/+-]*", re.ASCII)


def entry_of(request: Any, *, at: float, **more: str) -> AuditEntry:  # noqa: ANN401  # a dataclass
    """The audit entry of the current call.

    Args:
        request: The request.
        at: Seconds since 1970.
        more: Additional detail; never a secret.
    """
    call, principal = CALL.get(), caller()
    assert call is not None, "caller() has found it"
    return AuditEntry(
        at=at,
        tenant=principal.tenant,
        principal=principal.name,
        face=call.api,
        method=type(request).__name__,
        outcome="OK",
        request_id=call.request_id,
        detail=detail_of(request, **more),
    )


@contextmanager
def audited() -> Generator[None]:
    """Records a call of administration that fails inside the block as rejected."""
    try:
        yield
    except Exception as error:
        call = CALL.get()
        assert call is not None, "every API sets it"
        message = error.message if isinstance(error, OpserveError) else "internal error"
        call.audited = shortened(message)
        raise


def detail_of(request: Any, **more: str) -> str:  # noqa: ANN401  # a dataclass
    """The fields of a request as "name=value" pairs."""
    given = given_in(request)
    limits: dict[str, object] = given.pop("quota", {})
    pairs: dict[str, object] = {**given, **more, **limits}
    return shortened(" ".join(f"{name}={_formatted(value)}" for name, value in pairs.items()))


def given_in(values: Any) -> dict[str, Any]:  # noqa: ANN401  # a dataclass
    """The fields of a dataclass that are not at their default."""
    defaults = {field.name: field.default for field in fields(values)}
    given = {name: value for name, value in asdict(values).items() if value != defaults[name]}
    if "quota" in given:
        given["quota"] = {
            name: limit for name, limit in given["quota"].items() if limit is not None
        }
    return given


def _formatted(value: object) -> str:
    parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    text = ",".join(map(str, parts))
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
