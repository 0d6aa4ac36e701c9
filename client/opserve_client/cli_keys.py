"""The commands `opserve key`, `opserve certificate` and `opserve identity`."""

import sys
from collections.abc import Iterable, Mapping
from time import time
from typing import Annotated

import typer

from opserve.v1.admin_service_pb2 import Certificate, Key, Tenant, TrustedIdentity
from opserve_client.access import DEFAULT_ADDRESS
from opserve_client.cli_connection import Address, connected
from opserve_client.cli_rows import AsCsv, AsJson, Row, moment, show
from opserve_client.cli_tenants import Force, Name
from opserve_client.errors import invalid_parameter
from opserve_client.request_forms import KEY_DAYS

keys = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys of tenants.")
certificates = typer.Typer(
    no_args_is_help=True, help="Assign client certificates to tenants, list and remove them."
)
identities = typer.Typer(
    no_args_is_help=True, help="Trust ID tokens of CI systems, list and remove them."
)

_DAY_S = 86400.0
OPERATE = ("operate",)
AnyName = Annotated[str, typer.Argument(help="Name of a tenant; the default is all tenants.")]
Principal = Annotated[str, typer.Argument(help="Name of the caller within the tenant.")]
Scopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        help="operate (the default), metrics or admin; repeat the option for several scopes.",
    ),
]


@keys.command("create")
def create_key(  # noqa: PLR0913  # options of the command
    context: typer.Context,
    tenant: Name,
    principal: Principal,
    *,
    scopes: Scopes = None,
    days: Annotated[
        float | None,
        typer.Option(
            min=KEY_DAYS[0],
            max=KEY_DAYS[1],
            help="Days until the key expires; the default is never.",
        ),
    ] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Create an API key and show it once, alone on standard output."""
    lifetime_s = None if days is None else days * _DAY_S
    with connected(context, address) as client:
        made = client.admin.create_key(
            tenant, principal, scopes=scopes or OPERATE, lifetime_s=lifetime_s
        )
    if as_json or as_csv:
        row = {**_key(made.key), "key": made.text}
        show([row], columns=[*_KEY, "key"], as_json=as_json, as_csv=as_csv)
    else:
        sys.stderr.write(
            f"Key {made.key.id} of {tenant}/{principal}. Save it: it is not shown again.\n"
        )
        typer.echo(made.text)


@keys.command("list")
def list_keys(
    context: typer.Context,
    tenant: AnyName = "",
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show keys, with those that the service rejects and the reason."""
    with connected(context, address) as client:
        tenants = {one.name: one for one in client.admin.list_tenants()}
        found = client.admin.list_keys(tenant)
    rows = [{**_key(key), "state": _state(key, tenants, now=time())} for key in found]
    show(rows, columns=(*_KEY, "state"), as_json=as_json, as_csv=as_csv)


@keys.command("revoke")
def revoke_key(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="Id of the key, from `opserve key list`.")],
    *,
    force: Force = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Revoke a key: the service rejects it from now on."""
    with connected(context, address) as client:
        show(
            [_key(client.admin.revoke_key(key, force=force))],
            columns=_KEY,
            as_json=as_json,
            as_csv=as_csv,
        )


@certificates.command("add")
def add_certificate(  # noqa: PLR0913  # options of the command
    context: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(help="Subject of the certificate: CN=ci,O=Farm or URI:spiffe://farm/ci."),
    ],
    tenant: Name,
    principal: Principal,
    *,
    scopes: Scopes = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Assign a client certificate to a tenant."""
    with connected(context, address) as client:
        added = client.admin.add_certificate(
            subject, tenant=tenant, principal=principal, scopes=scopes or OPERATE
        )
    show([_certificate(added)], columns=_CERTIFICATE, as_json=as_json, as_csv=as_csv)


@certificates.command("list")
def list_certificates(
    context: typer.Context,
    tenant: AnyName = "",
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show client certificates."""
    with connected(context, address) as client:
        rows = [_certificate(one) for one in client.admin.list_certificates(tenant)]
    show(rows, columns=_CERTIFICATE, as_json=as_json, as_csv=as_csv)


@certificates.command("remove")
def remove_certificate(
    context: typer.Context,
    subject: Annotated[
        str, typer.Argument(help="Subject of the certificate, from `opserve certificate list`.")
    ],
    *,
    force: Force = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Remove a client certificate: the service rejects it from now on."""
    with connected(context, address) as client:
        client.admin.remove_certificate(subject, force=force)


@identities.command("add")
def add_identity(  # noqa: PLR0913  # options of the command
    context: typer.Context,
    issuer: Annotated[
        str, typer.Argument(help="https://token.actions.githubusercontent.com, https://gitlab.com")
    ],
    tenant: Name,
    principal: Annotated[str, typer.Argument(help="Name of the caller within the tenant.")],
    *,
    audience: Annotated[str, typer.Option(help="Audience that the job requests.")],
    claims: Annotated[
        list[str],
        typer.Option("--claim", help="Claim that a token must have, NAME=VALUE; repeat."),
    ],
    scopes: Scopes = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Trust ID tokens of a CI system that have these claims."""
    with connected(context, address) as client:
        added = client.admin.add_identity(
            issuer,
            audience=audience,
            claims=_claims(claims),
            tenant=tenant,
            principal=principal,
            scopes=scopes or OPERATE,
        )
    show([_identity(added)], columns=_IDENTITY, as_json=as_json, as_csv=as_csv)


@identities.command("list")
def list_identities(
    context: typer.Context,
    tenant: AnyName = "",
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show trusted identities."""
    with connected(context, address) as client:
        rows = [_identity(one) for one in client.admin.list_identities(tenant)]
    show(rows, columns=_IDENTITY, as_json=as_json, as_csv=as_csv)


@identities.command("remove")
def remove_identity(
    context: typer.Context,
    identity: Annotated[str, typer.Argument(help="Id, as `opserve identity list` shows it.")],
    *,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Trust an identity no longer."""
    with connected(context, address) as client:
        client.admin.remove_identity(identity)


_KEY = (
    *("id", "tenant", "principal", "scopes"),
    *("created_at", "expires_at", "revoked_at", "last_used_at"),
)
_IDENTITY = (
    *("id", "issuer", "audience", "claims"),
    *("tenant", "principal", "scopes", "created_at"),
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


def _state(key: Key, tenants: Mapping[str, Tenant], *, now: float) -> str:
    """Returns whether the service accepts a key, or the reason why not."""
    if key.HasField("revoked_at"):
        return "revoked"
    if key.HasField("expires_at") and key.expires_at <= now:
        return "expired"
    tenant = tenants.get(key.tenant)
    return "tenant disabled" if tenant is None or tenant.disabled else "valid"


def _claims(given: Iterable[str]) -> dict[str, str]:
    claims: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or name in claims:
            raise invalid_parameter("claim", pair, "NAME=VALUE, and each name once")
        claims[name] = value
    return claims


def _certificate(certificate: Certificate) -> Row:
    return {
        "subject": certificate.subject,
        "tenant": certificate.tenant,
        "principal": certificate.principal,
        "scopes": " ".join(certificate.scopes),
    }


def _identity(identity: TrustedIdentity) -> Row:
    return {
        "id": identity.id,
        "issuer": identity.issuer,
        "audience": identity.audience,
        "claims": " ".join(identity.claims),
        "tenant": identity.tenant,
        "principal": identity.principal,
        "scopes": " ".join(identity.scopes),
        "created_at": moment(identity.created_at),
    }
