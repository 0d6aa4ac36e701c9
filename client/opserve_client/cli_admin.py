"""The commands `opserve usage`, `audit`, `who` and `release`."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer
from google.protobuf.message import Message

from opserve.v1.admin_service_pb2 import AuditEntry
from opserve_client.access import DEFAULT_ADDRESS
from opserve_client.cli_connection import Address, connected
from opserve_client.cli_keys import AnyName
from opserve_client.cli_rows import AsCsv, AsJson, Row, moment, show
from opserve_client.errors import invalid_parameter

_PAGE = 1000
"""Most entries of the audit that a service returns in one call."""


def usage(  # noqa: PLR0913  # options of the command
    context: typer.Context,
    tenant: AnyName = "",
    first_day: Annotated[
        str,
        typer.Option(help="First day in UTC, 2026-11-21; the default is 6 days before the last."),
    ] = "",
    last_day: Annotated[str, typer.Option(help="Last day in UTC; the default is today.")] = "",
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show device time in seconds by day, tenant and profile."""
    with connected(context, address) as client:
        found = client.admin.list_usage(tenant, first_day=first_day, last_day=last_day)
    columns = ("day", "tenant", "profile", "device_s", "calls")
    show(_rows(found, columns), columns=columns, as_json=as_json, as_csv=as_csv)


def audit(  # noqa: PLR0913  # options of the command
    context: typer.Context,
    *,
    tenant: Annotated[
        str | None,
        typer.Option(help='Tenant of the calls; "" means unauthenticated callers.'),
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(help="Outcome of the calls: OK, UNAUTHENTICATED, 401, ...")
    ] = None,
    since: Annotated[
        str, typer.Option(help="Earliest time in UTC: 2026-11-21 or 2026-11-21T17:00:00.")
    ] = "",
    until: Annotated[
        str, typer.Option(help="End of the time span in UTC, exclusive; same formats.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, help="Greatest number of entries.")] = 100,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show calls of administration and rejected calls, newest first."""
    entries: list[AuditEntry] = []
    begin, end = _time("since", since), _time("until", until)
    with connected(context, address) as client:
        cursor = ""
        while len(entries) < limit:
            page = client.admin.list_audit(
                tenant=tenant,
                outcome=outcome,
                since=begin,
                until=end,
                cursor=cursor,
                limit=min(limit - len(entries), _PAGE),
            )
            entries += page.entries
            cursor = page.cursor
            if not cursor:
                break
    rows = _audit_rows(entries)
    show(rows, columns=_AUDIT, as_json=as_json, as_csv=as_csv)


def who(
    context: typer.Context,
    tenant: AnyName = "",
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show the open sessions with their tenants."""
    with connected(context, address) as client:
        show(
            _rows(client.admin.list_sessions(tenant), _WHO),
            columns=_WHO,
            as_json=as_json,
            as_csv=as_csv,
        )


def release(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="Id of a session, from `opserve who`.")],
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="End the session although it has unfinished work, which is lost. Default: the "
            "service rejects that.",
        ),
    ] = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """End a session and free its device."""
    with connected(context, address) as client:
        client.admin.release_session(session, force=force)


_WHO = (
    *("id", "tenant", "device", "open_s", "expires_in_s", "calls"),
    *("queued_entries", "working", "memory_bytes"),
)
_AUDIT = (
    *("at", "tenant", "principal", "face", "method", "outcome"),
    *("reason", "detail", "count", "request_id"),
)


def _rows(messages: Iterable[Message], columns: Sequence[str]) -> list[Row]:
    return [{name: getattr(message, name) for name in columns} for message in messages]


def _audit_rows(entries: Sequence[AuditEntry]) -> list[Row]:
    rows = zip(_rows(entries, _AUDIT), entries, strict=True)
    return [{**row, "at": moment(entry.at)} for row, entry in rows]


def _time(parameter: str, given: str) -> float | None:
    """Converts a time to seconds since 1970; a time without a zone is in UTC."""
    if not given:
        return None
    try:
        read = datetime.fromisoformat(given)
    except ValueError:
        raise invalid_parameter(parameter, given, "2026-11-21 or 2026-11-21T17:00:00") from None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
