"""Tokens: which are accepted, the sentence that rejects each of the others, and what they cost."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jwt
import pytest

from opserve_server.core.directory import TrustedIdentity
from opserve_server.core.errors import OpserveError, Unauthenticated
from opserve_server.core.principal import Principal, Scope
from opserve_server.tokens import LEEWAY_S, TOKEN_CHARACTERS, Tokens, is_token
from server.token_issuer import AUDIENCE, ISSUER, REPOSITORY, FixedKeys, private_key, token

NOW = 1_800_000_000.0
CI = Principal(tenant="lab", name="ci", scopes=frozenset({Scope.OPERATE}))
NIGHTLY = Principal(tenant="lab", name="nightly", scopes=frozenset({Scope.METRICS}))
IDENTITY = TrustedIdentity(
    id="00000001",
    issuer=ISSUER,
    audience=AUDIENCE,
    claims=("ref=refs/heads/main", f"repository={REPOSITORY}"),
    principal=CI,
    created_at=1.0,
)


@pytest.fixture
def keys() -> FixedKeys:
    return FixedKeys()


@pytest.fixture
def tokens(keys: FixedKeys) -> Tokens:
    made = Tokens(keys, limit=4)
    made.refresh([IDENTITY])
    return made


def made(**claims: object) -> str:
    return token(ISSUER, "first", now=NOW, **claims)


def refused(tokens: Tokens, given: str, now: float = NOW) -> OpserveError:
    with pytest.raises(Unauthenticated) as caught:
        tokens.principal_of(given, now)
    assert given not in f"{caught.value!r}{vars(caught.value)}"
    return caught.value


def test_only_a_text_of_three_parts_is_a_token() -> None:
    assert is_token(made())
    assert not any(map(is_token, ("vision.key", "opserve_x", "a.b.c.d", "")))


@pytest.mark.parametrize("key_id", ["first", "rsa"])
def test_a_token_with_the_claims_of_an_identity_is_its_principal(
    tokens: Tokens, key_id: str
) -> None:
    given = token(ISSUER, key_id, now=NOW, aud=["https://other.example", AUDIENCE])
    assert tokens.principal_of(given, NOW) is CI


def test_the_oldest_identity_that_accepts_a_token_is_the_one(tokens: Tokens) -> None:
    nightly = replace(
        IDENTITY, id="00000002", claims=(f"repository={REPOSITORY}",), principal=NIGHTLY
    )
    tokens.refresh([IDENTITY, nightly])
    assert tokens.principal_of(made(), NOW) is CI
    assert tokens.principal_of(made(ref="refs/heads/x"), NOW) is NIGHTLY
    tokens.refresh([nightly, IDENTITY])
    assert tokens.principal_of(made(), NOW) is NIGHTLY


def signed(header: dict[str, Any], claims: object, *, key_id: str = "first") -> str:
    """A token of any header and content, with a signature by ES256 of a key."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in (header, claims)
    ]
    body = b".".join(parts)
    algorithm = jwt.get_algorithm_by_name("ES256")
    signature = algorithm.sign(body, private_key(key_id))
    return b".".join([body, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def tampered(given: str) -> str:
    header, claims, signature = given.split(".")
    forged = {**jwt.decode(given, options={"verify_signature": False}), "repository": "evil/fork"}
    changed = base64.urlsafe_b64encode(json.dumps(forged).encode()).rstrip(b"=").decode()
    assert changed != claims
    return f"{header}.{changed}.{signature}"


def claims_of(**claims: object) -> dict[str, Any]:
    return {"iss": ISSUER, "aud": AUDIENCE, "exp": NOW + 300, "iat": NOW, **claims}


HEADER = {"alg": "ES256", "kid": "first", "typ": "JWT"}
WRONG: dict[str, tuple[Callable[[], str], str]] = {
    "expired": (lambda: made(exp=NOW - LEEWAY_S - 12), "expired 42 s ago"),
    "not valid yet": (lambda: made(nbf=NOW + 90), "is not valid before 90 s from now"),
    "issued in the future": (lambda: made(iat=NOW + 90), "is not valid before 90 s from now"),
    "without an end": (lambda: made(exp=None), "has no valid claim exp"),
    "an end that is text": (
        lambda: signed(HEADER, claims_of(exp="2099-01-01")),
        "has no valid claim exp",
    ),
    "an end that is true": (lambda: signed(HEADER, claims_of(exp=True)), "no valid claim exp"),
    "an endless end": (lambda: signed(HEADER, claims_of(exp=float("inf"))), "no valid claim exp"),
    "no end at all": (lambda: signed(HEADER, claims_of(exp=float("nan"))), "no valid claim exp"),
    "a start that is a list": (lambda: signed(HEADER, claims_of(nbf=[])), "no valid claim nbf"),
    "another audience": (
        lambda: made(aud="https://github.com/farm"),
        f"is for the audience 'https://github.com/farm', and the service accepts {AUDIENCE}",
    ),
    "no audience": (lambda: made(aud=None), "is for the audience ''"),
    "another issuer": (
        lambda: token("https://gitlab.com", now=NOW),
        "No trusted identity has the issuer of this token, 'https://gitlab.com'",
    ),
    "no issuer": (lambda: made(iss=None), "No trusted identity has the issuer of this token"),
    "another repository": (
        lambda: made(repository="evil/fork"),
        "accepts this token, which has ref 'refs/heads/main', repository 'evil/fork'",
    ),
    "a repository of the same start": (lambda: made(repository=REPOSITORY + "-x"), "kernels-x'"),
    "no repository": (lambda: made(repository=None), "repository missing"),
    "a repository that is a list": (lambda: made(repository=[REPOSITORY]), "No trusted identity"),
    "changed claims": (lambda: tampered(made()), "has a wrong signature"),
    "another key": (
        lambda: signed({**HEADER, "kid": "second"}, claims_of()),
        "has a wrong signature",
    ),
    "no signature": (
        lambda: jwt.encode(claims_of(), "", algorithm="none", headers={"kid": "first"}),
        "is not signed with RS256 or ES256",
    ),
    "a shared secret": (
        lambda: jwt.encode(claims_of(), "s" * 64, algorithm="HS256", headers={"kid": "first"}),
        "is not signed with RS256 or ES256",
    ),
    "another algorithm than the key's": (
        lambda: signed({**HEADER, "alg": "RS256"}, claims_of()),
        "has a wrong signature",
    ),
    "an algorithm that is a list": (
        lambda: signed({**HEADER, "alg": ["ES256"]}, claims_of()),
        "is not signed with RS256 or ES256",
    ),
    "no key id": (
        lambda: signed({"alg": "ES256"}, claims_of()),
        "is not signed with RS256 or ES256",
    ),
    "an extension that must be understood": (
        lambda: signed({**HEADER, "crit": ["exp"]}, claims_of()),
        "has a wrong signature",
    ),
    "a list of claims": (lambda: signed(HEADER, [claims_of()]), "is no JSON Web Token"),
    "empty parts": (lambda: "..", "is no JSON Web Token"),
    "other characters": (lambda: "e30.§§.e30", "is no JSON Web Token"),
    "no JSON": (lambda: "AAAA.AAAA.AAAA", "is no JSON Web Token"),
    "deep JSON": (
        lambda: f"{base64.urlsafe_b64encode(b'[' * 6000).decode()}.e30.e30",
        "is no JSON Web Token",
    ),
    "many digits": (
        lambda: f"e30.{base64.urlsafe_b64encode(b'9' * 6000).decode()}.e30",
        "is no JSON Web Token",
    ),
    "too long": (
        lambda: made(more="x" * TOKEN_CHARACTERS),
        f"has more than {TOKEN_CHARACTERS} characters",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_token_that_is_not_accepted_is_rejected_with_its_fault(tokens: Tokens, name: str) -> None:
    make, said = WRONG[name]
    error = refused(tokens, make())
    assert said in error.message
    assert "\n" not in error.message


def test_clocks_may_differ_by_the_leeway(tokens: Tokens) -> None:
    early, late = made(nbf=NOW + LEEWAY_S, iat=NOW + LEEWAY_S), made(exp=NOW - LEEWAY_S + 1)
    assert tokens.principal_of(early, NOW) is CI
    assert tokens.principal_of(late, NOW) is CI


def test_no_key_is_looked_for_before_the_issuer_is_a_trusted_one(
    tokens: Tokens, keys: FixedKeys
) -> None:
    for name in ("another issuer", "no issuer", "too long", "deep JSON", "no signature"):
        refused(tokens, WRONG[name][0]())
    assert keys.used == 0


def test_a_verified_token_is_verified_once_and_ends_with_its_time(
    tokens: Tokens, keys: FixedKeys
) -> None:
    given = made()
    for later_s in range(300 + int(LEEWAY_S)):
        assert tokens.principal_of(given, NOW + later_s) is CI
    assert keys.used == 1
    assert "expired 30 s ago" in refused(tokens, given, NOW + 300 + LEEWAY_S).message
    assert not tokens._verified


def test_an_identity_that_is_removed_ends_the_tokens_that_it_accepted(tokens: Tokens) -> None:
    given = made()
    assert tokens.principal_of(given, NOW) is CI
    tokens.refresh([replace(IDENTITY, principal=NIGHTLY)])
    assert tokens.principal_of(given, NOW) is NIGHTLY
    tokens.refresh([replace(IDENTITY, claims=("repository=other/kernels",))])
    assert "repository 'farm/kernels'" in refused(tokens, given).message
    tokens.refresh([])
    assert "No trusted identity has the issuer" in refused(tokens, given).message


def test_verified_tokens_are_kept_within_a_limit(tokens: Tokens, keys: FixedKeys) -> None:
    first = made()
    tokens.principal_of(first, NOW)
    for number in range(100):
        tokens.principal_of(made(jti=f"{number}"), NOW)
        tokens.principal_of(first, NOW)
    assert len(tokens._verified) == 4
    assert keys.used == 101, "the one in use stays"


def test_rejected_tokens_are_not_kept(tokens: Tokens) -> None:
    for name in WRONG:
        refused(tokens, WRONG[name][0]())
    assert not tokens._verified


def test_claims_that_reach_a_message_are_short_and_on_one_line(tokens: Tokens) -> None:
    error = refused(tokens, made(repository="a\nb" * 1000, ref="\x1b[2J"))
    assert "\n" not in error.message
    assert "\x1b" not in error.message
    assert len(error.message) < 512
