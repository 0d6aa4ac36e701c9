"""Drill: the front is killed and started again while eight tenants with keys call it."""

import pytest

from benchmarks.recovery import TENANTS, recovery_s
from system.drills import tell

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(180)]


async def test_eight_tenants_recover_after_their_front_was_killed_with_right_results() -> None:
    found = await recovery_s()
    assert set(found) == {tenant.name for tenant in TENANTS}
    tell(
        "front killed and started again: the last of eight tenants goes on after",
        max(found.values()),
    )
