"""The command `opserve top`: current activity of devices and tenants, once or repeatedly."""

import time
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live

from opserve.v1.admin_service_pb2 import GetActivityResponse, TenantActivity
from opserve_client.access import DEFAULT_ADDRESS
from opserve_client.cli_connection import Address, connected
from opserve_client.cli_rows import UNBOUNDED, AsJson, Row, show_json, table

_DEVICE = ("device", "profile", "ready", "sessions", "free_mib", "memory_mib")
_TENANT = (
    *("tenant", "weight", "device_s", "share_percent", "sessions", "queued", "memory_mib"),
    *("calls", "calls_per_s"),
)
_MIB = 2**20


def top(
    context: typer.Context,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Show the current activity once, and exit.")
    ] = False,
    interval_s: Annotated[float, typer.Option(min=0.5, help="Seconds between two updates.")] = 5.0,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show the activity of devices and tenants until Ctrl-C.

    device_s is the device time of today, in seconds. The service audits each update. --json shows
    the activity once.
    """
    with connected(context, address) as client:
        seen = client.admin.get_activity()
        if as_json:
            show_json({"devices": device_rows(seen), "tenants": tenant_rows(seen, None)})
            return
        if once:
            console = Console(markup=False, highlight=False)
            console.print(page(seen, None), width=None if console.is_terminal else UNBOUNDED)
            return
        # Ctrl-C is the normal end of the command.
        with (
            suppress(KeyboardInterrupt),
            Live(page(seen, None), screen=True, auto_refresh=False) as live,
        ):
            while True:
                time.sleep(interval_s)
                before, seen = seen, client.admin.get_activity()
                live.update(page(seen, before), refresh=True)


def page(now: GetActivityResponse, before: GetActivityResponse | None) -> Group:
    """Returns tables of devices and of tenants, the busiest tenant first.

    Args:
        now: Activity to show.
        before: Earlier activity, for shares and rates since then; None means shares of today and no
            rates.
    """
    tenants = sorted(tenant_rows(now, before), key=lambda row: (-_share(row), row["tenant"]))
    return Group(table(device_rows(now), _DEVICE), "", table(tenants, _TENANT))


def device_rows(now: GetActivityResponse) -> list[Row]:
    """Returns a row for each device."""
    return [
        {
            "device": device.name,
            "profile": device.profile,
            "ready": device.ready,
            "sessions": device.sessions,
            "free_mib": device.free_memory_bytes // _MIB,
            "memory_mib": device.memory_bytes // _MIB,
        }
        for device in now.devices
    ]


def tenant_rows(now: GetActivityResponse, before: GetActivityResponse | None) -> list[Row]:
    """Returns a row for each tenant; a value that needs earlier activity is None without it."""
    earlier = {one.tenant: one for one in before.tenants} if before else {}
    seconds = {
        one.tenant: max(_used(one) - _used(earlier.get(one.tenant)), 0.0) for one in now.tenants
    }
    whole = sum(seconds.values())
    passed_s = now.at - before.at if before else 0.0
    return [
        {
            "tenant": one.tenant,
            "weight": one.weight,
            "device_s": _used(one),
            "share_percent": 100 * seconds[one.tenant] / whole if whole else 0.0,
            "sessions": int(_use(one, "sessions")),
            "queued": int(_use(one, "queued_entries")),
            "memory_mib": int(_use(one, "device_memory_bytes")) // _MIB,
            "calls": one.calls,
            "calls_per_s": _rate(one, earlier.get(one.tenant), passed_s),
        }
        for one in now.tenants
    ]


def _rate(now: TenantActivity, before: TenantActivity | None, passed_s: float) -> float | None:
    if before is None or passed_s <= 0:
        return None
    return max(now.calls - before.calls, 0) / passed_s


def _used(tenant: TenantActivity | None) -> float:
    return 0.0 if tenant is None else _use(tenant, "device_seconds_per_day")


def _use(tenant: TenantActivity, resource: str) -> float:
    return next((use.use for use in tenant.uses if use.resource == resource), 0.0)


def _share(row: Row) -> float:
    share = row["share_percent"]
    assert isinstance(share, float), "tenant_rows computes it"
    return share
