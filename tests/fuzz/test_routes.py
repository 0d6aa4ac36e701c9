"""Every route under requests that schemathesis makes of the OpenAPI document, with keys.

`make fuzz` sends more: OPSERVE_FUZZ_TIMES is the factor, OPSERVE_FUZZ_SEED the seed.
"""

import asyncio
import os
import sys
from pathlib import Path

import httpx2
import pytest

from opserve_server.core.principal import Principal, Scope
from opserve_server.core.tenants import Tenant
from opserve_server.store.store import open_store
from system.drills import own_process
from system.test_identity import AUDIT, made_key

HERE = Path(__file__).resolve().parent
TIMES = int(os.environ.get("OPSERVE_FUZZ_TIMES", "1"))
SEED = os.environ.get("OPSERVE_FUZZ_SEED", "6")
pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(600 + 60 * TIMES)]
EXAMPLES = 2 * TIMES
"""Of each operation; their number depends on no clock, so that a seed means the same requests."""
ALL = Principal(tenant="lab", name="fuzzer", scopes=frozenset(Scope))
CHECKS = (
    *("ignored_auth", "use_after_free", "response_schema_conformance"),
    *("content_type_conformance", "status_code_conformance", "no_error_that_nobody_foresaw"),
)
LIMITS = {
    "devices": '["ascend910b", "ft78ne"]',
    "device_memory_bytes": str(2**26),
    "slab_bytes": str(2**20),
    "lease_default_s": "5",
    "lease_maximum_s": "5",
    "wait_limit_s": "0.2",
    "watch_limit_s": "0.2",
    "unknown_keys_limit": "1000000",
    "log_level": "ERROR",
}


async def test_no_request_breaks_a_route(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'opserve.db'}"
    async with open_store(url, timeout_s=5.0, connections_limit=2) as store:
        await store.tenants.create(Tenant(name="lab"), audit=AUDIT)
        key, _ = await made_key(store, ALL)
    async with own_process(store_url=url, no_keys="false", **LIMITS) as (process, addresses):
        fuzzing = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{addresses.rest}/openapi.json"),
            *("--url", addresses.rest, "--header", f"Authorization: Bearer {key}"),
            *("--exclude-path", "/v1/admin/drain"),  # it ends the service, as it should
            *("--seed", SEED, "--max-examples", f"{EXAMPLES}"),
            *("--phases", "fuzzing,stateful", "--checks", ",".join(CHECKS)),
            *("--request-timeout", "300", "--no-color", "--warnings", "off"),
            env=os.environ | {"SCHEMATHESIS_HOOKS": "answers", "PYTHONPATH": f"{HERE}"},
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await fuzzing.communicate()
        assert fuzzing.returncode == 0, output.decode()
        assert b"Seed" in output
        assert process.returncode is None
        async with httpx2.AsyncClient(base_url=addresses.rest) as client:
            assert (await client.get("/readyz")).status_code == 200
