"""Tokens of CI systems: JSON Web Tokens that trusted identities accept."""

import base64
import binascii
import json
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, cast

from jwt import PyJWK, PyJWS
from jwt.exceptions import PyJWTError

from opserve_server.core.directory import TrustedIdentity
from opserve_server.core.errors import Unauthenticated
from opserve_server.core.keys import sha256_of
from opserve_server.core.principal import Principal
from opserve_server.issuers import ALGORITHMS, unknown_issuer

TOKEN_CHARACTERS = 8192
"""Longest token; those of GitHub and GitLab have about 2000 characters."""
LEEWAY_S = 30.0
"""Seconds by which the clocks of an issuer and the service may differ."""
_PARTS = 3
_JWS = PyJWS(algorithms=list(ALGORITHMS))


class Keys(Protocol):
    """The keys of issuers, as IssuerKeys has them."""

    def watch(self, issuers: Sequence[str]) -> None:
        """Keeps the keys of these issuers."""
        ...

    def key(self, issuer: str, key_id: str) -> PyJWK:
        """One key."""
        ...


@dataclass(slots=True)
class _Verified:
    """Claims of a token whose signature is right, and the principal of them.

    Attributes:
        claims: The claims.
        expires_at: Seconds since 1970.
        principal: None: identities have changed since.
    """

    claims: Mapping[str, Any] = field(repr=False)
    expires_at: float
    principal: Principal | None


def is_token(text: str) -> bool:
    """Whether a credential has the form of a token: three parts with dots between them."""
    return text.count(".") == _PARTS - 1


class Tokens:
    """Verifies tokens, each once, and finds the principals of their claims.

    Args:
        keys: Keys of the issuers.
        limit: Verified tokens at most; the least recently used one is dropped.
    """

    def __init__(self, keys: Keys, *, limit: int) -> None:
        self._keys = keys
        self._limit = limit
        self._identities: Sequence[TrustedIdentity] = ()
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    def refresh(self, identities: Sequence[TrustedIdentity]) -> None:
        """Replaces the trusted identities; verified tokens find their principal anew."""
        if identities == self._identities:
            return
        self._identities = tuple(identities)
        self._keys.watch([one.issuer for one in identities])
        for verified in self._verified.values():
            verified.principal = None

    def principal_of(self, token: str, now: float) -> Principal:
        """The principal of a token.

        Args:
            token: Its text.
            now: Seconds since 1970.

        Raises:
            Unauthenticated: The token is not accepted.
            Unavailable: 507901, the service does not have the issuer's keys.
        """
        if len(token) > TOKEN_CHARACTERS:
            _reject("a token that is too long", f"has more than {TOKEN_CHARACTERS} characters")
        digest = sha256_of(token)
        verified = self._verified.get(digest)
        if verified is None:
            verified = self._verify(token, now)
            self._verified[digest] = verified
            if len(self._verified) > self._limit:
                self._verified.popitem(last=False)
        else:
            self._verified.move_to_end(digest)
            if verified.expires_at + LEEWAY_S <= now:
                del self._verified[digest]
                _check_times(verified.claims, now)
        if verified.principal is None:
            verified.principal = self._identified(verified.claims)
        return verified.principal

    def _verify(self, token: str, now: float) -> _Verified:
        header, claims = _unverified(token)
        issuer, key_id = claims.get("iss"), header.get("kid")
        if not isinstance(issuer, str) or all(one.issuer != issuer for one in self._identities):
            raise unknown_issuer(f"{issuer}")
        if header.get("alg") not in ALGORITHMS or not isinstance(key_id, str):
            _reject("a token of another algorithm", f"is not signed with {' or '.join(ALGORITHMS)}")
        key = self._keys.key(issuer, key_id)
        try:
            _JWS.decode(token, key, algorithms=[key.algorithm_name])
        except (PyJWTError, ValueError):
            _reject("a token with a wrong signature", "has a wrong signature")
        expires_at = _check_times(claims, now)
        return _Verified(claims, expires_at, self._identified(claims))

    def _identified(self, claims: Mapping[str, Any]) -> Principal:
        """The principal of the oldest identity that accepts the claims."""
        issuer, audiences = claims["iss"], _audiences(claims)
        of_issuer = [one for one in self._identities if one.issuer == issuer]
        if not of_issuer:
            raise unknown_issuer(issuer)
        for_audience = [one for one in of_issuer if one.audience in audiences]
        if not for_audience:
            allowed = ", ".join(sorted({one.audience for one in of_issuer}))
            _reject(
                "a token for another audience",
                f"is for the audience {_shown(', '.join(audiences))}, and the service accepts "
                f"{allowed[:128]}",
            )
        for one in for_audience:
            if all(_has(claims, required) for required in one.claims):
                return one.principal
        names = sorted({claim.partition("=")[0] for one in for_audience for claim in one.claims})
        looked_at = ", ".join(f"{name} {_shown(claims.get(name))}" for name in names)
        raise Unauthenticated(
            f"no identity for {looked_at}",
            given="a token that no trusted identity accepts",
            message=f"No trusted identity accepts this token, which has {looked_at}: an "
            "administrator adds one with `opserve identity add`.",
        )


def _unverified(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims before the signature is checked: they only choose the key."""
    parts = token.split(".", _PARTS)
    if len(parts) != _PARTS:
        _reject_malformed()
    header, claims = (_object_in(part) for part in parts[:2])
    return header, claims


def _object_in(part: str) -> dict[str, Any]:
    try:
        data = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
        parsed: object = json.loads(data)
    except (ValueError, binascii.Error, RecursionError):
        _reject_malformed()
    if not isinstance(parsed, dict):
        _reject_malformed()
    return cast("dict[str, Any]", parsed)


def _check_times(claims: Mapping[str, Any], now: float) -> float:
    """Checks `exp`, `nbf` and `iat`, and returns `exp`."""
    expires_at = _time(claims, "exp")
    if expires_at + LEEWAY_S <= now:
        _reject("an expired token", f"expired {now - expires_at:.0f} s ago")
    for name in ("nbf", "iat"):
        early_s = _time(claims, name, absent=now) - now
        if early_s > LEEWAY_S:
            _reject(
                "a token that is not valid yet", f"is not valid before {early_s:.0f} s from now"
            )
    return expires_at


def _time(claims: Mapping[str, Any], name: str, *, absent: float | None = None) -> float:
    given = claims.get(name, absent)
    if not isinstance(given, int | float) or isinstance(given, bool) or not _is_time(given):
        _reject(f"a token without a valid {name}", f"has no valid claim {name}")
    return float(given)


def _is_time(given: float) -> bool:
    return -(2**53) < given < 2**53 and not math.isnan(given)


def _audiences(claims: Mapping[str, Any]) -> list[str]:
    given: object = claims.get("aud")
    listed = cast("list[object]", given) if isinstance(given, list) else [given]
    return [one for one in listed if isinstance(one, str)]


def _has(claims: Mapping[str, Any], required: str) -> bool:
    name, _, value = required.partition("=")
    given = claims.get(name)
    return isinstance(given, str) and given == value


def _shown(value: object) -> str:
    """A claim as text on one line, or that it is missing."""
    return "missing" if value is None else repr(f"{value}"[:96])


def _reject_malformed() -> NoReturn:
    _reject("a malformed token", "is no JSON Web Token")


def _reject(reason: str, fault: str) -> NoReturn:
    raise Unauthenticated(
        reason,
        given=reason,
        message=f"This token {fault}: request a new ID token from the CI system, and send it "
        "unchanged.",
    )
