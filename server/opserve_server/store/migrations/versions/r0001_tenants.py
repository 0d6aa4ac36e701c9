"""Tenants, keys, certificates, usage and audit."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Makes the tables."""
    _make_tenants()
    _make_credentials()
    _make_usage()
    _make_audit()


def _make_tenants() -> None:
    op.create_table(
        "tenants",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("weight", sa.Integer, nullable=False),
        sa.Column("priority_limit", sa.Integer, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("deleted_at", sa.Double),
        sa.Column("device_memory_bytes", sa.BigInteger),
        sa.Column("sessions", sa.BigInteger),
        sa.Column("buffers", sa.BigInteger),
        sa.Column("executors", sa.BigInteger),
        sa.Column("streams", sa.BigInteger),
        sa.Column("queued_entries", sa.BigInteger),
        sa.Column("calls_per_s", sa.Double),
        sa.Column("bytes_in_flight", sa.BigInteger),
        sa.Column("device_seconds_per_day", sa.Double),
        sa.PrimaryKeyConstraint("name", name="pk_tenants"),
    )


def _make_credentials() -> None:
    op.create_table(
        "keys",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("sha256", sa.LargeBinary, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("revoked_at", sa.Double),
        sa.Column("last_used_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
        sa.UniqueConstraint("sha256", name="uq_keys_sha256"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_keys_tenant"),
    )
    op.create_index("ix_keys_tenant", "keys", ["tenant"])
    op.create_table(
        "certificates",
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("subject", name="pk_certificates"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_certificates_tenant"),
    )
    op.create_index("ix_certificates_tenant", "certificates", ["tenant"])


def _make_usage() -> None:
    op.create_table(
        "usage",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("day", sa.Date, nullable=False),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("device_s", sa.Double, nullable=False),
        sa.Column("calls", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "day", "profile", name="pk_usage"),
    )


def _make_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("face", sa.Text, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_at_id", "audit", ["at", "id"])
    op.create_index("ix_audit_tenant_at_id", "audit", ["tenant", "at", "id"])
