"""A service with the calls of `opserve apply`, without a connection."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from typer.testing import CliRunner, Result

from opserve.v1 import admin_service_pb2 as messages
from opserve.v1.usage_service_pb2 import GetUsageResponse
from opserve_client import cli

TEAMS = """
tenants:
  vision:
    weight: 3
    quota: {sessions: 8, calls_per_s: 500}
    keys:
      laptop: {days: 90, file: vision.key}
      dashboard: {scopes: [metrics]}
    identities:
      - issuer: https://ci.farm
        audience: opserve
        claims: {repository: farm/vision}
        principal: ci
  speech:
"""
ISSUER = "https://ci.farm"
IDENTITY = f"""tenants:
  lab:
    identities:
      - issuer: {ISSUER}
        audience: a
        claims: {{repository: farm/vision}}
        principal: ci
"""


class Farm:
    """A service with the calls of administration that the command makes; a client of itself."""

    def __init__(self) -> None:
        self.tenants = {"admin": messages.Tenant(name="admin", weight=1)}
        self.keys: list[messages.Key] = []
        self.identities: list[messages.TrustedIdentity] = []
        self.certificates: list[messages.Certificate] = []
        self.deleted = ["gone"]
        self.calls: list[str] = []
        self.failures: dict[str, BaseException] = {}
        self.add_key("admin", "root", ["operate", "admin"])

    @property
    def admin(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def get_usage(self) -> GetUsageResponse:
        return GetUsageResponse(tenant="admin")

    def list_tenants(self) -> list[messages.Tenant]:
        return list(self.tenants.values())

    def list_keys(self, _tenant: str = "") -> list[messages.Key]:
        return self.keys

    def list_identities(self) -> list[messages.TrustedIdentity]:
        return self.identities

    def list_certificates(self) -> list[messages.Certificate]:
        return self.certificates

    def list_deleted_tenants(self) -> list[str]:
        return self.deleted

    def list_issuers(self) -> list[str]:
        return [ISSUER]

    def add_key(
        self, tenant: str, principal: str, scopes: Sequence[str], **times: float
    ) -> messages.Key:
        number = f"{len(self.keys):08x}"
        key = messages.Key(id=number, tenant=tenant, principal=principal, scopes=scopes, **times)
        self.keys.append(key)
        return key

    def change(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failures:
            raise self.failures.pop(name)

    def create_tenant(
        self,
        name: str,
        *,
        weight: int | None,
        priority_limit: int | None,
        quota: Mapping[str, Any],
    ) -> None:
        self.change(f"create {name}")
        self.tenants[name] = messages.Tenant(
            name=name,
            weight=weight or 1,
            priority_limit=priority_limit or 0,
            quota=messages.Quota(**quota),
        )

    def update_tenant(
        self, name: str, *, quota: Mapping[str, Any] | None = None, **members: Any
    ) -> None:
        self.change(f"update {name}")
        tenant = self.tenants[name]
        for member, value in members.items():
            if value is not None:
                setattr(tenant, member, value)
        for resource, limit in (quota or {}).items():
            if limit is None:
                tenant.quota.ClearField(resource)  # type: ignore[arg-type]  # one of its fields
            else:
                setattr(tenant.quota, resource, limit)

    def delete_tenant(self, name: str) -> None:
        self.change(f"delete {name}")
        del self.tenants[name]

    def create_key(
        self, tenant: str, principal: str, *, scopes: Sequence[str], lifetime_s: float | None
    ) -> messages.CreateKeyResponse:
        self.change(f"key {tenant}/{principal} {lifetime_s}")
        key = self.add_key(tenant, principal, scopes)
        return messages.CreateKeyResponse(key=key, text=f"secret{key.id}")

    def revoke_key(self, key: str) -> None:
        self.change(f"revoke {key}")
        self.keys = [one for one in self.keys if one.id != key]

    def add_identity(
        self,
        issuer: str,
        *,
        audience: str,
        claims: Mapping[str, str],
        tenant: str,
        principal: str,
        scopes: Sequence[str],
    ) -> None:
        self.change(f"trust {tenant}/{principal}")
        pairs = [f"{name}={value}" for name, value in claims.items()]
        self.identities.append(
            messages.TrustedIdentity(
                id=f"{len(self.identities)}",
                issuer=issuer,
                audience=audience,
                claims=pairs,
                tenant=tenant,
                principal=principal,
                scopes=scopes,
            )
        )

    def remove_identity(self, identity: str) -> None:
        self.change(f"distrust {identity}")
        self.identities = [one for one in self.identities if one.id != identity]


def apply(text: str, *options: str, answer: str | None = None) -> Result:
    Path("teams.yaml").write_text(textwrap.dedent(text))
    return CliRunner().invoke(cli.app, ["apply", "teams.yaml", *options], input=answer)
