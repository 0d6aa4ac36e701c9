"""Keys of issuers: fetched in the background, within bounds, and from registered issuers alone."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from opserve_server.core.errors import OpserveError, Unauthenticated, Unavailable
from opserve_server.issuers import DISCOVERY, DOCUMENT_BYTES, KEYS_LIMIT, IssuerKeys
from server.token_issuer import TokenIssuer, encoded, public_key, serving_issuer

INTERVAL_S = 30.0
AGE_LIMIT_S = 86_400.0


class Clock:
    """Monotonic seconds that pass when a test says so."""

    now = 5000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def keys_of(
    issuer: TokenIssuer, clock: Clock | None = None, *, timeout_s: float = 60.0
) -> AsyncGenerator[IssuerKeys]:
    keys = IssuerKeys(
        [issuer.url],
        interval_s=INTERVAL_S,
        age_limit_s=AGE_LIMIT_S,
        timeout_s=timeout_s,
        clock=clock or Clock(),
    )
    try:
        yield keys
    finally:
        await keys.close()


async def settled(keys: IssuerKeys) -> None:
    """Waits for the fetches under way."""
    tasks = [one.fetching for one in keys._issuers.values() if one.fetching is not None]
    await asyncio.gather(*tasks)


def kind_of_refusal(keys: IssuerKeys, issuer: str, key_id: str) -> type[OpserveError] | None:
    try:
        keys.key(issuer, key_id)
    except OpserveError as error:
        return type(error)
    return None


async def test_keys_are_fetched_when_an_identity_names_their_issuer() -> None:
    async with serving_issuer() as issuer, keys_of(issuer) as keys:
        issuer.key_ids = ["first", "rsa"]
        keys.watch([issuer.url])
        assert kind_of_refusal(keys, issuer.url, "first") is Unavailable, "no call waits"
        await settled(keys)
        assert keys.key(issuer.url, "first").algorithm_name == "ES256"
        assert keys.key(issuer.url, "rsa").algorithm_name == "RS256"
        assert issuer.requests == [DISCOVERY, "/keys"]
        keys.watch([])
        assert kind_of_refusal(keys, issuer.url, "first") is Unauthenticated


async def test_keys_are_fetched_over_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)  # pyright: ignore[reportUnknownMemberType]
    async with serving_issuer(context) as issuer:
        async with keys_of(issuer) as keys:
            keys.watch([issuer.url])
            await settled(keys)
            assert kind_of_refusal(keys, issuer.url, "first") is Unavailable, "an unknown authority"
        monkeypatch.setenv("SSL_CERT_FILE", f"{tmp_path / 'ca.pem'}")
        async with keys_of(issuer) as keys:
            keys.watch([issuer.url])
            await settled(keys)
            assert keys.key(issuer.url, "first").key_id == "first"


async def test_the_service_connects_to_no_issuer_that_settings_do_not_list() -> None:
    async with serving_issuer() as listed, serving_issuer() as other, keys_of(listed) as keys:
        keys.watch([other.url])
        for issuer in (listed, other):
            assert kind_of_refusal(keys, issuer.url, "first") is Unauthenticated
        await settled(keys)
        assert (listed.requests, other.requests) == ([], [])


async def test_an_unknown_key_id_fetches_at_most_once_in_each_interval() -> None:
    clock = Clock()
    async with serving_issuer() as issuer, keys_of(issuer, clock) as keys:
        keys.watch([issuer.url])
        await settled(keys)
        for _ in range(1000):
            assert kind_of_refusal(keys, issuer.url, "second") is Unauthenticated
        assert len(issuer.requests) == 2
        issuer.key_ids = ["second"]
        clock.now += INTERVAL_S
        for _ in range(1000):
            assert kind_of_refusal(keys, issuer.url, "second") is Unavailable
        await settled(keys)
        assert keys.key(issuer.url, "second").key_id == "second"
        assert kind_of_refusal(keys, issuer.url, "first") is Unauthenticated, "it was rotated away"
        assert len(issuer.requests) == 4


async def test_keys_serve_while_their_issuer_is_away_and_end_with_their_age() -> None:
    clock = Clock()
    async with serving_issuer() as issuer, keys_of(issuer, clock) as keys:
        keys.watch([issuer.url])
        await settled(keys)
        issuer.documents[DISCOVERY] = ("503 Service Unavailable", b"")
        clock.now += AGE_LIMIT_S - 1
        assert keys.key(issuer.url, "first").key_id == "first"
        await settled(keys)
        assert len(issuer.requests) == 3, "it was tried, in the background"
        assert keys.key(issuer.url, "first").key_id == "first"
        clock.now += INTERVAL_S
        assert kind_of_refusal(keys, issuer.url, "first") is Unavailable
        await settled(keys)
        issuer.documents.clear()
        clock.now += INTERVAL_S
        assert kind_of_refusal(keys, issuer.url, "first") is Unavailable
        await settled(keys)
        assert keys.key(issuer.url, "first").key_id == "first"


async def test_an_issuer_that_never_answers_holds_one_connection_and_ends_with_the_time() -> None:
    async with serving_issuer() as issuer, keys_of(issuer, timeout_s=0.05) as keys:
        issuer.hold.clear()
        keys.watch([issuer.url])
        for _ in range(100):
            assert kind_of_refusal(keys, issuer.url, "first") is Unavailable
        await settled(keys)
        assert issuer.requests in ([], [DISCOVERY])
        assert kind_of_refusal(keys, issuer.url, "first") is Unavailable


KEYS = encoded({"keys": [public_key("first")]})
WRONG = {
    "a redirect": {DISCOVERY: ("302 Found\r\nlocation: /keys", b"")},
    "no JSON": {DISCOVERY: ("200 OK", b"<html>")},
    "a list": {DISCOVERY: ("200 OK", b"[]")},
    "deep JSON": {"/keys": ("200 OK", b"[" * 30_000)},
    "too many bytes": {"/keys": ("200 OK", KEYS + b" " * DOCUMENT_BYTES)},
    "an error": {"/keys": ("500 Internal Server Error", KEYS)},
    "compressed bytes": {"/keys": ("200 OK\r\ncontent-encoding: gzip", b"")},
    "no keys": {"/keys": ("200 OK", encoded({"keys": []}))},
    "keys that are none": {"/keys": ("200 OK", encoded({"keys": "first"}))},
    "keys of other kinds": {
        "/keys": (
            "200 OK",
            encoded(
                {
                    "keys": [
                        "first",
                        {"kty": "oct", "k": "c2VjcmV0", "kid": "first"},
                        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "first"},
                        {**public_key("first"), "use": "enc"},
                        {**public_key("first"), "alg": "HS256"},
                        {**public_key("first"), "kid": 1},
                    ]
                }
            ),
        )
    },
    "too many keys": {
        "/keys": (
            "200 OK",
            encoded({"keys": [{"kty": "oct"}] * KEYS_LIMIT + [public_key("first")]}),
        )
    },
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_document_out_of_bounds_is_no_source_of_keys(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_issuer() as issuer, keys_of(issuer) as keys:
        issuer.documents = dict(WRONG[name])
        keys.watch([issuer.url])
        await settled(keys)
        assert kind_of_refusal(keys, issuer.url, "first") is Unavailable
        (record,) = caplog.records
        assert issuer.url in record.message
        assert "\n" not in record.message


async def test_a_document_that_names_another_issuer_is_no_source_of_keys() -> None:
    async with serving_issuer() as issuer, keys_of(issuer) as keys:
        document = encoded({"issuer": f"{issuer.url}/other", "jwks_uri": f"{issuer.url}/keys"})
        issuer.documents[DISCOVERY] = ("200 OK", document)
        keys.watch([issuer.url])
        await settled(keys)
        assert kind_of_refusal(keys, issuer.url, "first") is Unavailable
        assert issuer.requests == [DISCOVERY]


async def test_keys_come_from_the_host_of_the_issuer_alone() -> None:
    async with serving_issuer() as issuer, serving_issuer() as other, keys_of(issuer) as keys:
        document = encoded({"issuer": issuer.url, "jwks_uri": f"{other.url}/keys"})
        issuer.documents[DISCOVERY] = ("200 OK", document)
        keys.watch([issuer.url])
        await settled(keys)
        assert kind_of_refusal(keys, issuer.url, "first") is Unavailable
        assert other.requests == []
