"""By each API a caller's mistake is an error of its parameter with the remedy, no fault."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from opserve_client import AsyncClient
from server.deployment import APIS, Deployment, open_deployment, refusal
from server.store.migrated import migrated_file
from server.token_issuer import AUDIENCE, ISSUER, REPOSITORY

pytestmark = pytest.mark.parametrize("api", APIS)


async def _tenant_twice(client: AsyncClient) -> None:
    await client.admin.create_tenant("lab")
    await client.admin.create_tenant("lab")


async def _third_key(client: AsyncClient) -> None:
    await client.admin.create_tenant("lab")
    for _ in range(3):
        await client.admin.create_key("lab", "ci")


async def _certificate_twice(client: AsyncClient) -> None:
    for principal in ("ci", "other"):
        await client.admin.add_certificate("CN=ci", tenant="admin", principal=principal)


async def _identity_twice(client: AsyncClient) -> None:
    for principal in ("ci", "other"):
        await client.admin.add_identity(
            ISSUER,
            audience=AUDIENCE,
            claims={"repository": REPOSITORY},
            tenant="admin",
            principal=principal,
        )


async def _last_administrator(client: AsyncClient) -> None:
    await client.admin.delete_tenant("admin")


async def _unknown_quota(client: AsyncClient) -> None:
    await client.admin.create_tenant("lab", quota={"sesions": 1})


async def _unknown_unlimited_quota(client: AsyncClient) -> None:
    await client.admin.update_tenant("admin", quota={"sesions": None})


async def _unknown_scope(client: AsyncClient) -> None:
    await client.admin.create_key("admin", "ci", scopes=["operat"])


async def _unknown_profile(client: AsyncClient) -> None:
    await client.open_session("910b")


async def _unknown_operator(client: AsyncClient) -> None:
    await client.list_operators("aclnnConvolutionBackwrd")


async def _unknown_suite(client: AsyncClient) -> None:
    await client.conformance.list_cases("smok")


async def _unknown_standard(client: AsyncClient) -> None:
    await client.conformance.verify("any", {}, suite="smoke", standards=["torch-assert-clos"])


MISTAKES: Mapping[str, tuple[Callable[[AsyncClient], Awaitable[None]], int, str]] = {
    "tenant": (_tenant_twice, 107000, "a name that no tenant has or had"),
    "key": (_third_key, 107000, "revoke one first"),
    "certificate": (_certificate_twice, 107000, "remove"),
    "identity": (_identity_twice, 107000, "remove"),
    "force": (_last_administrator, 107000, "force"),
    "quota": (_unknown_quota, 107000, "sessions, buffers, "),
    "quota, unlimited": (_unknown_unlimited_quota, 107000, "did you mean sessions?"),
    "scopes": (_unknown_scope, 107000, "did you mean operate?"),
    "profile": (_unknown_profile, 107001, "did you mean ascend910b?"),
    "operator": (_unknown_operator, 107017, "did you mean aclnnConvolutionBackward?"),
    "suite": (_unknown_suite, 107017, "did you mean smoke?"),
    "standards": (_unknown_standard, 100000, "did you mean torch-assert-close?"),
}
"""Mistakes by their parameter, with the code of the error and a part of its message."""


@pytest.fixture
async def deployment(tmp_path: Path) -> AsyncGenerator[Deployment]:
    async with open_deployment(migrated_file(tmp_path)) as deployment:
        yield deployment


@pytest.mark.parametrize("parameter", MISTAKES)
async def test_a_mistake_is_no_fault_of_the_service(
    deployment: Deployment, api: str, parameter: str, caplog: pytest.LogCaptureFixture
) -> None:
    mistake, code, remedy = MISTAKES[parameter]
    async with deployment.client(api) as client:
        error = await refusal(mistake(client))
    assert (error.code, error.parameter) == (code, parameter.partition(",")[0])
    assert remedy in error.message
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
