"""Jobs of a CI system call a service with their ID tokens: rotation, a missing issuer, a flood."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from client.samples import convolution
from opserve_client import AsyncClient, AuthenticationError, OpserveError
from opserve_client.errors import ServiceUnreachable
from opserve_server.app import running
from opserve_server.core.directory import TrustedIdentity
from opserve_server.core.principal import Principal, Scope
from opserve_server.issuers import DISCOVERY
from opserve_server.serving import Addresses
from opserve_server.settings import Settings
from opserve_server.store.store import Store
from server.token_issuer import AUDIENCE, REPOSITORY, TokenIssuer, serving_issuer, token
from system.test_identity import AUDIT, every_outcome, outcome, settings, store, until

pytestmark = pytest.mark.system
__all__ = ["store"]
OPENS = {"1 devices"}
REJECTED = {AuthenticationError.__name__}


@pytest.fixture
async def issuer() -> AsyncIterator[TokenIssuer]:
    async with serving_issuer() as served:
        yield served


async def trust(store: Store, issuer: TokenIssuer) -> TrustedIdentity:
    """Trusts the jobs of a repository."""
    identity = TrustedIdentity(
        id="00000001",
        issuer=issuer.url,
        audience=AUDIENCE,
        claims=(f"repository={REPOSITORY}",),
        principal=Principal(tenant="lab", name="ci", scopes=frozenset({Scope.OPERATE})),
        created_at=1.0,
    )
    await store.identities.add(identity, audit=AUDIT)
    return identity


def settings_with(folder: Path, issuer: TokenIssuer, **changed: object) -> Settings:
    given = {"identity_issuers": [issuer.url], "issuer_keys_interval_s": 0.05, **changed}
    return settings(folder).model_copy(update=given)


def job(issuer: TokenIssuer, key_id: str = "first", **claims: object) -> str:
    return token(issuer.url, key_id, now=time.time(), **claims)


async def opened(addresses: Addresses, given: str) -> None:
    """Waits until the service has the keys of the issuer."""

    async def opens() -> bool:
        return await outcome(addresses.grpc, given) == "1 devices"

    await until(opens)


async def test_a_job_computes_with_its_token_over_both_apis(
    tmp_path: Path, store: Store, issuer: TokenIssuer
) -> None:
    issuer.key_ids = ["first", "rsa"]
    await trust(store, issuer)
    async with running(settings_with(tmp_path, issuer)) as addresses:
        assert addresses.keys
        await opened(addresses, job(issuer))
        for address in (addresses.grpc, addresses.rest):
            async with (
                AsyncClient(address, api_key=job(issuer, "rsa")) as client,
                client.open_session() as session,
            ):
                await session.run(convolution())
        for wrong in (job(issuer, aud="other"), job(issuer, repository="evil/fork"), ""):
            assert await every_outcome(addresses, wrong) == REJECTED
        assert issuer.requests == [DISCOVERY, "/keys"], "one fetch served all calls"


async def test_an_identity_that_ends_ends_its_tokens(
    tmp_path: Path, store: Store, issuer: TokenIssuer
) -> None:
    identity = await trust(store, issuer)
    async with running(settings_with(tmp_path, issuer)) as addresses:
        given = job(issuer)
        await opened(addresses, given)
        await store.identities.remove(identity.id, audit=AUDIT)

        async def closed() -> bool:
            return await every_outcome(addresses, given) == REJECTED

        await until(closed)


async def test_a_rotated_key_is_fetched_and_the_old_one_ends(
    tmp_path: Path, store: Store, issuer: TokenIssuer
) -> None:
    await trust(store, issuer)
    async with running(settings_with(tmp_path, issuer)) as addresses:
        await opened(addresses, job(issuer))
        issuer.key_ids = ["second"]
        await opened(addresses, job(issuer, "second"))

        async def old_is_rejected() -> bool:  # once no fetch is under way
            return await every_outcome(addresses, job(issuer, jti="new")) == REJECTED

        await until(old_is_rejected)


async def test_a_missing_issuer_stops_no_start_and_no_verified_token(
    tmp_path: Path, store: Store, issuer: TokenIssuer
) -> None:
    await trust(store, issuer)
    issuer.documents[DISCOVERY] = ("503 Service Unavailable", b"")
    async with running(settings_with(tmp_path, issuer)) as addresses:
        for address in (addresses.grpc, addresses.rest):
            async with AsyncClient(address, api_key=job(issuer), timeout_s=20.0) as client:
                with pytest.raises(OpserveError, match="does not have the keys") as away:
                    await client.list_devices()
            assert isinstance(away.value, ServiceUnreachable)
        issuer.documents.clear()
        given = job(issuer)
        await opened(addresses, given)
        issuer.documents[DISCOVERY] = ("503 Service Unavailable", b"")
        assert await every_outcome(addresses, given) == OPENS
        assert await every_outcome(addresses, job(issuer, jti="new")) == OPENS


@pytest.mark.slow
async def test_thousands_of_tokens_that_are_not_accepted_stop_no_job(
    tmp_path: Path, store: Store, issuer: TokenIssuer
) -> None:
    await trust(store, issuer)
    chosen = settings_with(tmp_path, issuer, issuer_keys_interval_s=3600.0)
    async with running(chosen) as addresses:
        given = job(issuer)
        await opened(addresses, given)
        forged = f"{given.rpartition('.')[0]}.{'A' * 86}"
        for number in range(1000):
            bad = (
                forged,
                job(issuer, "unknown", jti=f"{number}"),
                token("https://evil.example", now=time.time(), jti=f"{number}"),
            )
            for address, one in zip(
                (addresses.grpc, addresses.rest, addresses.rest), bad, strict=True
            ):
                assert await outcome(address, one) in {
                    AuthenticationError.__name__,
                    "AclrtError",
                }
            if number % 100 == 0:
                assert await every_outcome(addresses, given) == OPENS
                assert await every_outcome(addresses, job(issuer, jti=f"{number}")) == OPENS
        assert issuer.requests == [DISCOVERY, "/keys"], "strangers caused no fetch"
