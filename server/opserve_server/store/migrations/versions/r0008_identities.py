"""Trusted identities of CI systems."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Creates the table."""
    op.create_table(
        "identities",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("issuer", sa.Text, nullable=False),
        sa.Column("audience", sa.Text, nullable=False),
        sa.Column("claims", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_identities"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], name="fk_identities_tenant"),
    )
    op.create_index("ix_identities_tenant", "identities", ["tenant"])
