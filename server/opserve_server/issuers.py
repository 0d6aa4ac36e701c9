"""Public keys of token issuers: fetched by OpenID Connect's discovery, cached with bounds."""

import asyncio
import json
import logging
import ssl
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from opserve_kernels.status import Status
from opserve_server.addresses import is_loopback_host
from opserve_server.core.errors import Unauthenticated, Unavailable

DISCOVERY = "/.well-known/openid-configuration"
DOCUMENT_BYTES = 64 * 1024
"""Largest document of an issuer, bytes; that of GitHub has 10 KB."""
KEYS_LIMIT = 32
"""Keys of one issuer; those behind are ignored."""
FRESH_SHARE = 0.05
"""Part of the maximum age after which keys are fetched again, while they are still used."""
ALGORITHMS = ("RS256", "ES256")
"""Signature algorithms. None of them has a secret that the service would share."""

log = logging.getLogger(__name__)


class DocumentRejected(Exception):
    """A document of an issuer that the service does not use; the message is the reason."""


@dataclass(slots=True)
class _Issuer:
    """The keys of an issuer by their id, and the times of the last fetches, monotonic seconds."""

    keys: Mapping[str, PyJWK] = field(default_factory=dict[str, PyJWK])
    fetched_at: float = float("-inf")
    tried_at: float = float("-inf")
    fetching: asyncio.Task[None] | None = None


class IssuerKeys:
    """Keys of the issuers that the settings list; nothing else of the network is ever read.

    No call waits for a fetch. A token whose key is being fetched is rejected as Unavailable, and
    its client retries.

    Args:
        issuers: URLs that the settings allow.
        interval_s: Least time between the begins of two fetches of one issuer, seconds.
        age_limit_s: Time after which keys are no longer used, seconds.
        timeout_s: Longest fetch, seconds.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        issuers: Collection[str],
        *,
        interval_s: float,
        age_limit_s: float,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allowed = frozenset(issuers)
        self._interval_s = interval_s
        self._age_limit_s = age_limit_s
        self._timeout_s = timeout_s
        self._clock = clock
        self._issuers: dict[str, _Issuer] = {}
        self._context: ssl.SSLContext | None = None

    def watch(self, issuers: Collection[str]) -> None:
        """Fetches the keys of these issuers, and forgets those of all others."""
        wanted = self._allowed & set(issuers)
        for name in self._issuers.keys() - wanted:
            forgotten = self._issuers.pop(name)
            if forgotten.fetching is not None:
                forgotten.fetching.cancel()
        for name in wanted - self._issuers.keys():
            self._issuers[name] = _Issuer()
            self._fetch(name)

    def key(self, issuer: str, key_id: str) -> PyJWK:
        """The key of an issuer by its id; an unknown id begins a fetch, at most every interval.

        Raises:
            Unauthenticated: The issuer is not watched, or has no such key.
            Unavailable: 507901, the keys are being fetched, or the issuer does not answer.
        """
        known = self._issuers.get(issuer)
        if known is None:
            raise unknown_issuer(issuer)
        age_s = self._clock() - known.fetched_at
        if age_s > self._age_limit_s:
            known.keys = {}
        found = known.keys.get(key_id)
        if found is None or age_s > self._age_limit_s * FRESH_SHARE:
            self._fetch(issuer)
        if found is not None:
            return found
        if known.fetching is not None or not known.keys:
            raise _keys_missing(issuer)
        raise Unauthenticated(
            "a token with an unknown key id",
            given="a token with an unknown key id",
            message=f"The issuer {issuer} has no key with the key id of this token: request a new "
            "token.",
        )

    async def close(self) -> None:
        """Ends all fetches."""
        tasks = [one.fetching for one in self._issuers.values() if one.fetching is not None]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

    def _fetch(self, name: str) -> None:
        known = self._issuers[name]
        now = self._clock()
        if known.fetching is None and now - known.tried_at >= self._interval_s:
            known.tried_at = now
            known.fetching = asyncio.get_running_loop().create_task(self._renew(name, known))

    async def _renew(self, name: str, known: _Issuer) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                keys = await self._keys_of(name)
        except (DocumentRejected, TimeoutError, OSError, httpx2.HTTPError) as error:
            reason = f"{error}"[:200] or type(error).__name__
            log.warning("keys of the issuer %s stay as they were: %r", name, reason)
        except Exception:  # a fault of this code must not end the retries
            log.exception("keys of the issuer %s stay as they were", name)
        else:
            known.keys, known.fetched_at = keys, self._clock()
        finally:
            known.fetching = None

    async def _keys_of(self, issuer: str) -> Mapping[str, PyJWK]:
        local = is_loopback_host(urlsplit(issuer).hostname or "")
        if self._context is None:  # reads the authorities of the system, which takes 20 ms or more
            self._context = await asyncio.to_thread(httpx2.create_ssl_context)
        async with httpx2.AsyncClient(
            verify=self._context,
            trust_env=not local,
            follow_redirects=False,
            timeout=None,  # that of the whole fetch applies: a slow issuer may send byte by byte
        ) as http:
            described = await _document(http, f"{issuer}{DISCOVERY}")
            if described.get("issuer") != issuer:
                raise DocumentRejected("the document of another issuer")
            where = described.get("jwks_uri")
            if not isinstance(where, str) or origin(where) != origin(issuer):
                raise DocumentRejected("jwks_uri is not at the host of the issuer")
            return keys_in(await _document(http, where))


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port


def keys_in(document: Mapping[str, Any]) -> Mapping[str, PyJWK]:
    """The usable keys of a JSON Web Key Set by their id: RSA and P-256, for signatures."""
    listed: object = document.get("keys")
    if not isinstance(listed, list):
        raise DocumentRejected("no list of keys")
    found: dict[str, PyJWK] = {}
    for one in cast("list[object]", listed)[:KEYS_LIMIT]:
        key = _usable(cast("dict[str, Any]", one)) if isinstance(one, dict) else None
        if key is not None and key.key_id is not None:
            found[key.key_id] = key
    if not found:
        raise DocumentRejected(f"no key for {' or '.join(ALGORITHMS)}")
    return found


def _usable(given: dict[str, Any]) -> PyJWK | None:
    algorithms = {"RSA": "RS256", "EC": "ES256"}
    algorithm = algorithms.get(f"{given.get('kty')}")
    right = algorithm is not None and given.get("alg", algorithm) == algorithm
    if not right or given.get("use", "sig") != "sig" or not isinstance(given.get("kid"), str):
        return None
    try:
        return PyJWK(given, algorithm)
    except (PyJWTError, ValueError, TypeError):
        return None  # other keys of the issuer stay usable


async def _document(http: httpx2.AsyncClient, url: str) -> Mapping[str, Any]:
    received = bytearray()
    async with http.stream("GET", url, headers={"accept": "application/json"}) as answer:
        if not answer.is_success:
            raise DocumentRejected(f"status {answer.status_code}")
        if "content-encoding" in answer.headers:
            raise DocumentRejected("a compressed document")
        async for part in answer.aiter_raw():
            received += part
            if len(received) > DOCUMENT_BYTES:
                raise DocumentRejected(f"more than {DOCUMENT_BYTES} bytes")
    try:
        parsed: object = json.loads(received)
    except (ValueError, RecursionError):
        raise DocumentRejected("a document that is not JSON") from None
    if not isinstance(parsed, dict):
        raise DocumentRejected("a document that is no object")
    return cast("dict[str, Any]", parsed)


def unknown_issuer(issuer: str) -> Unauthenticated:
    """Rejects a token of an issuer without a trusted identity; no network is used."""
    return Unauthenticated(
        "a token of an unknown issuer",
        given="a token of an unknown issuer",
        message=f"No trusted identity has the issuer of this token, {issuer[:128]!r}: an "
        "administrator adds one with `opserve identity add`.",
    )


def _keys_missing(issuer: str) -> Unavailable:
    return Unavailable(
        Status.ACL_ERROR_RT_SOCKET_CLOSE,
        f"The service does not have the keys of the issuer {issuer} yet: retry in a second. If "
        "this lasts, the log of the service has the reason.",
        parameter="authorization",
        given="a token whose key the service does not have yet",
        allowed="a later try",
    )
