"""The commands `opserve key` and `opserve certificate`."""

import sys
from typing import Annotated

import typer

from opserve.v1.admin_service_pb2 import Certificate, Key
from opserve_client._sync.client import DEFAULT_ADDRESS
from opserve_client.cli_connection import Address, connected
from opserve_client.cli_rows import Form, Output, Row, moment, show
from opserve_client.cli_tenants import Force, Name

keys = typer.Typer(no_args_is_help=True, help="API keys of tenants.")
certificates = typer.Typer(no_args_is_help=True, help="Client certificates of tenants.")

_DAY_S = 86400.0
OPERATE = ("operate",)
AnyName = Annotated[str, typer.Argument(help="A tenant; unless given, all.")]
Scopes = Annotated[
    list[str] | None,
    typer.Option("--scope", help="operate (unless given), metrics, admin; repeat."),
]


@keys.command("create")
def create_key(  # noqa: PLR0913  # options of the command
    context: typer.Context,
    tenant: Name,
    principal: Annotated[str, typer.Argument(help="Who calls with it, within the tenant.")],
    *,
    scopes: Scopes = None,
    days: Annotated[float | None, typer.Option(help="Days until it expires.")] = None,
    output: Output = Form.TABLE,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Make a key, and show it this once: as a table, the key alone on standard output."""
    lifetime_s = None if days is None else days * _DAY_S
    with connected(context, address) as client:
        made = client.admin.create_key(
            tenant, principal, scopes=scopes or OPERATE, lifetime_s=lifetime_s
        )
    if output is Form.TABLE:
        sys.stderr.write(f"Key {made.key.id} of {tenant}/{principal}, which is shown once:\n")
        typer.echo(made.text)
    else:
        show([{**_key(made.key), "key": made.text}], columns=[*_KEY, "key"], output=output)


@keys.command("list")
def list_keys(
    context: typer.Context,
    tenant: AnyName = "",
    output: Output = Form.TABLE,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show keys, also revoked and expired ones."""
    with connected(context, address) as client:
        show([_key(key) for key in client.admin.list_keys(tenant)], columns=_KEY, output=output)


@keys.command("revoke")
def revoke_key(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="Its id.")],
    *,
    force: Force = False,
    output: Output = Form.TABLE,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """End a key for good."""
    with connected(context, address) as client:
        show([_key(client.admin.revoke_key(key, force=force))], columns=_KEY, output=output)


@certificates.command("add")
def add_certificate(  # noqa: PLR0913  # options of the command
    context: typer.Context,
    subject: Annotated[str, typer.Argument(help="CN=ci,O=Farm or URI:spiffe://farm/ci.")],
    tenant: Name,
    principal: Annotated[str, typer.Argument(help="Who calls with it, within the tenant.")],
    *,
    scopes: Scopes = None,
    output: Output = Form.TABLE,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Say whose a client certificate is."""
    with connected(context, address) as client:
        added = client.admin.add_certificate(
            subject, tenant=tenant, principal=principal, scopes=scopes or OPERATE
        )
    show([_certificate(added)], columns=_CERTIFICATE, output=output)


@certificates.command("list")
def list_certificates(
    context: typer.Context,
    tenant: AnyName = "",
    output: Output = Form.TABLE,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show certificates."""
    with connected(context, address) as client:
        rows = [_certificate(one) for one in client.admin.list_certificates(tenant)]
    show(rows, columns=_CERTIFICATE, output=output)


@certificates.command("remove")
def remove_certificate(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(help="As it is listed.")],
    *,
    force: Force = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Forget a certificate."""
    with connected(context, address) as client:
        client.admin.remove_certificate(subject, force=force)


_KEY = (
    *("id", "tenant", "principal", "scopes"),
    *("created_at", "expires_at", "revoked_at", "last_used_at"),
)
_CERTIFICATE = ("subject", "tenant", "principal", "scopes")


def _key(key: Key) -> Row:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "principal": key.principal,
        "scopes": " ".join(key.scopes),
        "created_at": moment(key.created_at),
        "expires_at": moment(key.expires_at) if key.HasField("expires_at") else None,
        "revoked_at": moment(key.revoked_at) if key.HasField("revoked_at") else None,
        "last_used_at": moment(key.last_used_at) if key.HasField("last_used_at") else None,
    }


def _certificate(certificate: Certificate) -> Row:
    return {
        "subject": certificate.subject,
        "tenant": certificate.tenant,
        "principal": certificate.principal,
        "scopes": " ".join(certificate.scopes),
    }
