"""The commands and jobs of docs/how-to/ci-identity.md, with an issuer of the test's own."""

import asyncio
import io
import os
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from benchmarks.service_with_keys import AUDIT, store_url
from opserve_client import AsyncClient
from opserve_client.private_service import private_service
from opserve_server.bootstrap import first_key
from opserve_server.core.tenants import Tenant
from opserve_server.store.store import open_store
from server.token_issuer import TokenIssuer, encoded, serving_issuer, token
from skips import needs_program
from test_examples import blocks, run_shell

pytestmark = pytest.mark.system
PAGE = "docs/how-to/ci-identity.md"
FARM = "https://farm.example"
needs_curl = needs_program("curl", there=shutil.which("curl") is not None, package="curl")


@dataclass(frozen=True, kw_only=True)
class Page:
    """The commands of the page, for a service and an issuer of the test."""

    service: str
    issuer: TokenIssuer
    folder: Path

    async def administer(self, commands: str) -> None:
        """Runs commands of the administrator."""
        for known in ("https://token.actions.githubusercontent.com", "https://gitlab.com"):
            commands = commands.replace(known, self.issuer.url)
        commands = commands.replace(".venv/bin/opserve", "opserve")
        await self._run(f"--address {self.service}", commands)

    async def work(self, *lines: str) -> None:
        """Runs the commands of a job."""
        await self._run("", "\n".join(lines))

    def job(self, block: str) -> Any:  # YAML
        """A job as its CI system reads it."""
        yaml: Any = YAML(typ="safe")
        return yaml.load(io.StringIO(block.replace("grpcs://farm.example:50051", self.service)))

    async def _run(self, options: str, commands: str) -> None:
        function = f'opserve() {{ .venv/bin/opserve "$@" {options}; }}\n'
        await asyncio.to_thread(run_shell, function + commands, self.folder)


@pytest.fixture
async def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Page]:
    """A service that an administrator has, with a tenant."""
    url = store_url(tmp_path)
    async with open_store(url, timeout_s=20.0, connections_limit=1) as store:
        key = await first_key(store, "admin", force=False, now=time.time())
        await store.tenants.create(Tenant(name="vision"), audit=AUDIT)
    monkeypatch.setenv("OPSERVE_API_KEY", key)
    async with serving_issuer() as issuer:
        started = private_service(
            store_url=url, no_keys="false", identity_issuers=f'["{issuer.url}"]'
        )
        with started as service:
            yield Page(service=service.grpc, issuer=issuer, folder=tmp_path)


@pytest.mark.slow
@needs_curl
async def test_jobs_of_both_systems_call_as_the_page_says(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    github, gitlab, _, end = blocks(PAGE, "sh")
    github_job, gitlab_job = map(page.job, blocks(PAGE, "yaml"))
    await page.administer(github + gitlab)
    key, url = os.environ["OPSERVE_API_KEY"], page.issuer.url
    monkeypatch.delenv("OPSERVE_API_KEY")

    given = token(url, now=time.time(), aud=FARM)
    path = f"/token?job=1&audience={FARM}"
    page.issuer.documents[path] = ("200 OK", encoded({"value": given}))
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", f"{url}/token?job=1")
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of-the-job")
    (step,) = github_job["jobs"]["devices"]["steps"]
    await page.work(step["run"])
    assert path in page.issuer.requests

    ((variable, wanted),) = gitlab_job["devices"]["id_tokens"].items()
    claims: dict[str, Any] = {"project_path": "farm/kernels", "ref_protected": "true"}
    given = token(url, now=time.time(), aud=wanted["aud"], repository=None, **claims)
    monkeypatch.setenv(variable, given)
    await page.work(*gitlab_job["devices"]["script"])

    monkeypatch.setenv("OPSERVE_API_KEY", key)
    await page.administer(end)
    async with AsyncClient(page.service) as administrator:
        left = await administrator.admin.list_identities()
    assert [one.principal for one in left] == ["ci"]
