"""The page of `opserve top`: devices with bars and sparklines, the queue, and tenants."""

import time
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from rich.console import Group, RenderableType
from rich.text import Text

from opserve.v1.admin_service_pb2 import GetActivityResponse, TenantActivity
from opserve_client.cli_rows import Row, printable, table
from opserve_client.watched import Series, WatchedState
from opserve_client.wire.json_messages import Json

SERIES = ("device_busy_share", "device_calls_per_s")
"""Series of the sparklines."""
_TENANT = (
    *("tenant", "weight", "device_s", "share_percent", "sessions", "queued", "memory_mib"),
    *("calls", "calls_per_s"),
)
_WAITING = ("place", "profile", "waited_s", "left_s", "tenant", "waits_for")
_USE = ("resource", "use", "limit", "share")
_LEVELS = "▁▂▃▄▅▆▇█"
_BAR = 10
"""Characters of a bar."""
_TEXTS = 66
"""Characters of a device's second line beside its two sparklines."""
_SPARKLINES = 7, 60
"""Fewest and most characters of a sparkline."""
_MIB, _GIB = 2**20, 2**30
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_Item: TypeAlias = Mapping[str, Json]


def page(
    state: WatchedState,
    series: Series,
    *,
    width: int,
    passed_s: float = 0.0,
    tenants: GetActivityResponse | None = None,
    before: GetActivityResponse | None = None,
) -> Group:
    """Returns the page.

    Args:
        state: What the caller may see of the service.
        series: The series SERIES.
        width: Characters of a line.
        passed_s: Seconds since the state was read.
        tenants: Activity of all tenants; None shows the use of the caller's tenant.
        before: Earlier activity, for shares and rates since then; None means shares of today and no
            rates.
    """
    parts: list[RenderableType] = [_title(state), ""]
    for device in state.devices.values():
        parts += [*_device_lines(device, series, width), ""]
    waiting = _waiting_rows(state, passed_s)
    parts += [table(waiting, _WAITING) if waiting else Text("No request waits.", "dim"), ""]
    if tenants is None:
        parts.append(table(_use_rows(state), _USE))
    else:
        rows = sorted(tenant_rows(tenants, before), key=lambda row: (-_share(row), row["tenant"]))
        parts.append(table(rows, _TENANT))
    return Group(*parts)


def is_admin(state: WatchedState) -> bool:
    """Returns whether the caller may see all tenants."""
    return "admin" in cast("list[str]", state.service["state"]["scopes"])


def device_rows(state: WatchedState) -> list[Row]:
    """Returns a row for each device."""
    return [
        {
            "device": _text(device, "name"),
            "profile": _text(device, "profile"),
            "ready": bool(device["ready"]),
            "sessions": int(_number(device, "sessions")),
            "free_mib": int(_number(device, "free_memory_bytes")) // _MIB,
            "memory_mib": int(_number(device, "memory_bytes")) // _MIB,
            "busy_percent": 100 * _number(device, "busy_share"),
            "calls_per_s": _number(device, "calls_per_s"),
            "queued": int(_number(device, "queued_entries")),
            "restarts": int(_number(device, "restarts")),
        }
        for device in state.devices.values()
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


def sparkline(values: Sequence[float], width: int, *, top: float | None = None) -> str:
    """Returns the last values as characters of eight heights, the newest at the end.

    Args:
        values: The values, none negative.
        width: Characters; missing values are spaces.
        top: Value of the greatest height; None means the greatest value.
    """
    shown = values[-width:]
    most = top or max(shown, default=0.0) or 1.0
    heights = (min(1.0, value / most) * (len(_LEVELS) - 1) for value in shown)
    return "".join(_LEVELS[-int(-height // 1)] for height in heights).rjust(width)


def bar(share: float, width: int = _BAR) -> str:
    """Returns a share, 0 to 1, as a bar."""
    full = round(min(1.0, max(0.0, share)) * width)
    return "█" * full + "░" * (width - full)


def _title(state: WatchedState) -> Text:
    service, devices = state.service["state"], state.devices.values()
    ready = sum(bool(device["ready"]) for device in devices)
    line = Text(f"opserve {printable(_text(service, 'version'))}  ", "bold")
    if service["drains"]:
        line.append("drains: no new work  ", "yellow")
    line.append(f"{ready} of {len(devices)} devices ready", "green" if service["ready"] else "red")
    line.append(f"  up {_duration(time.time() - _number(service, 'started_at'))}", "not bold")
    return line


def _device_lines(device: _Item, series: Series, width: int) -> list[Text]:
    ready, restarts = bool(device["ready"]), int(_number(device, "restarts"))
    line = Text(f"{printable(_text(device, 'name'))}  ", "bold")
    since = _duration(time.time() - _number(device, "since"))
    line.append(f"{'ready' if ready else 'NOT READY'} {since}", "green" if ready else "bold red")
    counts = [
        f"{restarts} restart{'s' * (restarts != 1)}" if restarts else "",
        _holders(device),
        f"{_number(device, 'queued_entries'):.0f} queued",
        f"{_number(device, 'your_requests') + _number(device, 'other_requests'):.0f} waiting",
    ]
    line.append("  " + "  ".join(filter(None, counts)), "not bold")
    return [line, _activity_line(device, series, width)]


def _activity_line(device: _Item, series: Series, width: int) -> Text:
    name, (least, most) = _text(device, "name"), _SPARKLINES
    length = min(most, max(least, (width - _TEXTS) // 2))
    busy, calls = (series.points.get(one, {}).get(name, []) for one in SERIES)
    memory_bytes = _number(device, "memory_bytes")
    used_bytes = memory_bytes - _number(device, "free_memory_bytes")
    line = Text(f"  busy {100 * (busy[-1] if busy else 0.0):3.0f} % ")
    line.append(sparkline(busy, length, top=1.0), "cyan")
    line.append(f"  calls {calls[-1] if calls else 0.0:5.0f}/s ")
    line.append(sparkline(calls, length), "cyan")
    line.append("  memory ")
    line.append(bar(used_bytes / memory_bytes if memory_bytes else 0.0), "magenta")
    line.append(f" {used_bytes / _GIB:.1f} of {memory_bytes / _GIB:.1f} GiB")
    return line


def _holders(device: _Item) -> str:
    yours, others = (int(_number(device, f"{who}_sessions")) for who in ("your", "other"))
    parts = [f"yours: {yours}" if yours else "", f"others: {others}" if others else ""]
    held = ", ".join(filter(None, parts))
    if not held:
        return "free"
    return f"sessions {held}{', exclusive' if device['exclusive'] else ''}"


def _waiting_rows(state: WatchedState, passed_s: float) -> list[Row]:
    return [
        {
            "place": int(_number(request, "position")),
            "profile": _text(request, "profile"),
            "waited_s": round(_number(request, "waited_s") + passed_s),
            "left_s": round(max(0.0, _number(request, "left_s") - passed_s)),
            "tenant": _text(request, "tenant"),
            "waits_for": _text(request, "waits_for"),
        }
        for request in sorted(state.waiting.values(), key=lambda one: _number(one, "position"))
    ]


def _use_rows(state: WatchedState) -> list[Row]:
    uses = cast("list[_Item]", state.service.get("usage", {}).get("uses", []))
    return [
        {
            "resource": _text(use, "resource"),
            "use": _number(use, "use"),
            "limit": None if use["limit"] is None else _number(use, "limit"),
            "share": bar(_number(use, "use") / _number(use, "limit")) if use["limit"] else None,
        }
        for use in uses
    ]


def _duration(seconds: float) -> str:
    """Returns the two greatest units of a time: "2 h 5 min"."""
    left, parts = max(0, int(seconds)), list[str]()
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count or parts or unit == "s":
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def _number(item: _Item, member: str) -> float:
    return float(cast("float", item[member]))


def _text(item: _Item, member: str) -> str:
    return cast("str", item[member])
