"""The commands `opserve tenant` and `opserve quota`."""

from collections.abc import Iterable
from typing import Annotated

import typer

from opserve.v1.admin_service_pb2 import Tenant
from opserve.v1.usage_service_pb2 import ResourceUse
from opserve_client.access import DEFAULT_ADDRESS
from opserve_client.cli_connection import Address, connected
from opserve_client.cli_rows import AsCsv, AsJson, Row, show
from opserve_client.errors import invalid_parameter
from opserve_kernels.user_input import bytes_of

tenants = typer.Typer(no_args_is_help=True, help="Create, list, change and delete tenants.")
quotas = typer.Typer(no_args_is_help=True, help="Show and set the resource limits of tenants.")

_QUOTA_HELP = (
    "RESOURCE=LIMIT, such as sessions=4 or device_memory_bytes=512MiB, or RESOURCE=none for no "
    "limit; repeat for several."
)
_OF_BYTES = ("device_memory_bytes", "bytes_in_flight")
"""Resources that are counted in bytes."""
Name = Annotated[str, typer.Argument(help="Name of a tenant.")]
Limits = Annotated[list[str] | None, typer.Option("--quota", help=_QUOTA_HELP)]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Apply the change although no caller can administer the service after it. Default: "
        "the service rejects such a change.",
    ),
]
Weight = Annotated[
    int | None, typer.Option(help="Share of a device relative to other tenants, 1 to 1000.")
]
Priority = Annotated[
    int | None, typer.Option(help="Greatest priority of the tenant's session requests.")
]


@tenants.command("create")
def create_tenant(  # noqa: PLR0913  # options of the command
    context: typer.Context,
    name: Name,
    *,
    weight: Weight = None,
    priority_limit: Priority = None,
    quota: Limits = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Add a tenant."""
    limits = {key: limit for key, limit in _limits(quota or []).items() if limit is not None}
    with connected(context, address) as client:
        made = client.admin.create_tenant(
            name, weight=weight, priority_limit=priority_limit, quota=limits
        )
    _show_tenants([made], as_json=as_json, as_csv=as_csv)


@tenants.command("list")
def list_tenants(
    context: typer.Context,
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show all tenants."""
    with connected(context, address) as client:
        _show_tenants(client.admin.list_tenants(), as_json=as_json, as_csv=as_csv)


@tenants.command("show")
def show_tenant(
    context: typer.Context,
    name: Name,
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show one tenant."""
    with connected(context, address) as client:
        found = client.admin.get_tenant(name).tenant
    _show_tenants([found], as_json=as_json, as_csv=as_csv)


@tenants.command("update")
def update_tenant(  # noqa: PLR0913  # options of the command
    context: typer.Context,
    name: Name,
    *,
    weight: Weight = None,
    priority_limit: Priority = None,
    disabled: Annotated[
        bool | None,
        typer.Option("--disable/--enable", help="Reject the tenant's keys and close its sessions."),
    ] = None,
    quota: Limits = None,
    force: Force = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Change the given properties of a tenant."""
    with connected(context, address) as client:
        changed = client.admin.update_tenant(
            name,
            weight=weight,
            priority_limit=priority_limit,
            disabled=disabled,
            quota=_limits(quota or []),
            force=force,
        )
    _show_tenants([changed], as_json=as_json, as_csv=as_csv)


@tenants.command("delete")
def delete_tenant(
    context: typer.Context, name: Name, *, force: Force = False, address: Address = DEFAULT_ADDRESS
) -> None:
    """Delete a tenant, its keys and its sessions; its name is never used again."""
    with connected(context, address) as client:
        client.admin.delete_tenant(name, force=force)


@quotas.command("show")
def show_quota(
    context: typer.Context,
    tenant: Annotated[
        str, typer.Argument(help="Name of a tenant; the default is the caller's.")
    ] = "",
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show the limit and the current use of each resource of a tenant."""
    with connected(context, address) as client:
        uses = client.admin.get_tenant(tenant).uses if tenant else client.get_usage().uses
    show([_use(use) for use in uses], columns=_USE, as_json=as_json, as_csv=as_csv)


@quotas.command("set")
def set_quota(  # noqa: PLR0913  # options of the command
    context: typer.Context,
    tenant: Name,
    limits: Annotated[list[str], typer.Argument(metavar="RESOURCE=LIMIT...", help=_QUOTA_HELP)],
    *,
    force: Force = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Set limits of a tenant; other limits stay."""
    with connected(context, address) as client:
        client.admin.update_tenant(tenant, quota=_limits(limits), force=force)
        uses = client.admin.get_tenant(tenant).uses
    show([_use(use) for use in uses], columns=_USE, as_json=as_json, as_csv=as_csv)


_TENANT = ("name", "weight", "priority_limit", "disabled", "quota")
_USE = ("resource", "limit", "use", "refusals")


def _show_tenants(found: Iterable[Tenant], *, as_json: bool, as_csv: bool) -> None:
    show([_tenant(tenant) for tenant in found], columns=_TENANT, as_json=as_json, as_csv=as_csv)


def _tenant(tenant: Tenant) -> Row:
    limits = (f"{field.name}={limit:.15g}" for field, limit in tenant.quota.ListFields())
    return {
        "name": tenant.name,
        "weight": tenant.weight,
        "priority_limit": tenant.priority_limit,
        "disabled": tenant.disabled,
        "quota": " ".join(limits),
    }


def _use(use: ResourceUse) -> Row:
    return {
        "resource": use.resource,
        "limit": use.limit if use.HasField("limit") else None,
        "use": use.use,
        "refusals": use.refusals,
    }


def _limits(given: Iterable[str]) -> dict[str, float | None]:
    """Parses limits by resource; None removes a limit."""
    limits: dict[str, float | None] = {}
    for pair in given:
        resource, _, limit = pair.partition("=")
        if resource in limits:
            raise invalid_parameter("quota", pair, f"one limit of {resource}")
        limits[resource] = None if limit == "none" else _number(pair)
    return limits


def _number(pair: str) -> float:
    resource, _, limit = pair.partition("=")
    try:
        if resource in _OF_BYTES:
            return bytes_of(limit)
        return int(limit) if limit.removeprefix("-").isdigit() else float(limit)
    except ValueError as error:
        form = str(error) if resource in _OF_BYTES else "a number"
        allowed = f"RESOURCE=LIMIT, with {form}, or RESOURCE=none"
        raise invalid_parameter("quota", pair, allowed) from None
