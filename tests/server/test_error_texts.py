"""Errors of the service are sentences that say what happened and what to do."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from opserve_client import errors as of_client
from opserve_kernels.errors import (
    InvalidArgument,
    OpserveError,
    check_elements,
    check_extent,
    invalid_argument,
    null_argument,
)
from opserve_kernels.status import Status
from opserve_server.calls import BodyTooLarge, internal_error, malformed
from opserve_server.core import errors
from opserve_server.core.principal import LOCAL, Principal, Scope
from opserve_server.core.tenants import Resource
from sentences import faults_of

ROOT = Path(__file__).parents[2]
LONG = "x" * 100_000


def _raised(check: object, number: int) -> InvalidArgument:
    assert callable(check)
    with pytest.raises(InvalidArgument) as refusal:
        check(number)
    return refusal.value


def _quota(resource: Resource, *, limit: float, retry_after_s: float = 0.003) -> OpserveError:
    return errors.QuotaExceeded(
        resource,
        tenant="green",
        limit=limit,
        use=limit,
        requested=1,
        retry_after_s=retry_after_s,
    )


CI = Principal(tenant="red", name="alice", scopes=frozenset({Scope.OPERATE}))
BUILT: list[OpserveError] = [
    OpserveError(Status.ACL_ERROR_INVALID_PARAM, parameter="x", given=1, allowed="2 or 3"),
    OpserveError(Status.ACL_ERROR_INVALID_PARAM, parameter=LONG, given=LONG, allowed=LONG),
    invalid_argument("stride", given=[0, 1], allowed="values >= 1"),
    malformed("Content-Length", given="nothing", allowed="the bytes to write"),
    malformed("profile", given="", allowed="ascend910b"),
    null_argument("weight"),
    _raised(check_extent, 2**63),
    _raised(check_elements, 2**41),
    BodyTooLarge("body", limit=8),
    internal_error(ValueError("secret"), call="Execute", request_id="r" * 128),
    errors.HandleNotFound("buffer", 17),
    errors.HandleNotFound("suite", LONG, allowed=LONG),
    errors.session_not_found("nope"),
    errors.session_not_found("nope", ended="it was released"),
    errors.TooManyUnknownKeys("127.0.0.1", per_s=1),
    errors.PermissionDenied(CI, scope="the scope admin"),
    errors.PermissionDenied(LOCAL, scope="the scope admin"),
    errors.NotAllowed("Host", given="farm", allowed="localhost", reason="no loopback"),
    errors.Unauthenticated("unknown"),
    errors.no_credentials(),
    errors.unknown_certificate(LONG),
    errors.service_drains("session"),
    errors.service_ends(),
    errors.StoreUnavailable(),
    errors.DataCorrupted("crc32c", given="0x1", allowed="0x2"),
    *(_quota(resource, limit=2) for resource in Resource),
    *(_quota(resource, limit=0) for resource in Resource),
]


@pytest.mark.parametrize("error", BUILT, ids=lambda error: error.message[:40])
def test_an_error_built_from_its_parts_is_a_sentence(error: OpserveError) -> None:
    assert faults_of(error.message) == []
    assert str(error) == error.message


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            _quota(Resource.CALLS_PER_S, limit=200),
            "Rate limit of tenant green reached: 200 calls/s. Retry in 3 ms.",
        ),
        (
            _quota(Resource.SESSIONS, limit=2),
            "Session quota of tenant green used up (2 of 2). Close one first.",
        ),
        (
            _quota(Resource.SESSIONS, limit=0),
            "Session quota of tenant green used up (0 of 0). An administrator can raise it.",
        ),
        (
            _quota(Resource.DEVICE_SECONDS, limit=60, retry_after_s=3601),
            "Device time of tenant green used up today: 60 of 60 s. Retry in 61 min.",
        ),
        (
            null_argument("output_mask", wanted="three booleans"),
            "output_mask is required: pass three booleans.",
        ),
        (
            errors.session_not_found("nope"),
            "'nope' is not one of your sessions, or it has ended. Open a new one.",
        ),
        (
            errors.session_not_found("nope", ended="it was released"),
            "Session 'nope' has ended: it was released. Open a new one.",
        ),
        (
            errors.HandleNotFound("suite", "smok", allowed="smoke, standard"),
            "There is no suite 'smok'; use smoke, standard.",
        ),
        (
            invalid_argument("groups", given=3, allowed="divisors of 8"),
            "groups does not accept 3; it accepts divisors of 8.",
        ),
    ],
)
def test_an_error_states_the_fault_and_the_remedy(error: OpserveError, message: str) -> None:
    assert error.message == message


@pytest.mark.parametrize(
    "error",
    [
        of_client.invalid_argument("stride", "1", "a sequence of integers"),
        of_client.invalid_handle("buffer", "a buffer of another session", "one of this session"),
        of_client.session_lost(),
        of_client.session_lost(ended="it was released"),
        of_client.session_lost(ended=LONG),
        of_client.not_mappable(17),
        of_client.corrupted(given="0x1", allowed="0x2"),
    ],
)
def test_an_error_of_the_client_is_a_sentence(error: of_client.OpserveError) -> None:
    assert faults_of(error.message) == []


CLASSES = {
    name
    for module in (errors, inspect.getmodule(BodyTooLarge))
    for name, member in vars(module).items()
    if inspect.isclass(member) and issubclass(member, OpserveError)
} - {"HandleNotFound", "QuotaExceeded", "DataCorrupted", "BodyTooLarge", "NotAllowed"}


def _written_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Messages that are written where an error is made, with 9 in place of inserted values."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        named = [keyword.value for keyword in node.keywords if keyword.arg == "message"]
        texts = [*node.args[1:2], *named] if node.func.id in CLASSES else named
        for text in texts:
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and text.value:
                yield node.lineno, text.value
            elif isinstance(text, ast.JoinedStr):
                parts = (p.value if isinstance(p, ast.Constant) else "9" for p in text.values)
                yield node.lineno, "".join(map(str, parts))


SOURCES = [
    path
    for root in ("server/opserve_server", "kernels/opserve_kernels")
    for path in sorted((ROOT / root).rglob("*.py"))
]


def test_every_message_in_the_source_is_a_sentence() -> None:
    texts = [(path, *found) for path in SOURCES for found in _written_texts(path)]
    assert len(texts) > 50, "the search finds them"
    wrong = [f"{path}:{line}: {text}" for path, line, text in texts if faults_of(text)]
    assert wrong == []


def test_no_source_joins_given_and_allowed_values_without_a_verb() -> None:
    sources = [*SOURCES, *sorted((ROOT / "client").rglob("*.py"))]
    wrong = [
        f"{path}:{number}: {line}"
        for path in sources
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ": given {" in line or ", allowed {" in line
    ]
    assert wrong == []
