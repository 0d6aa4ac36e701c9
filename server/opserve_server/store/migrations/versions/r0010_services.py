"""Services of a farm."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "services",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("instance", sa.Text, nullable=False),
        sa.Column("grpc_address", sa.Text, nullable=False),
        sa.Column("http_address", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("contract", sa.Text, nullable=False),
        sa.Column("kernel_variant", sa.Text, nullable=False),
        sa.Column("drains", sa.Boolean, nullable=False),
        sa.Column("devices", sa.Text, nullable=False),
        sa.Column("uses", sa.Text, nullable=False),
        sa.Column("lease_until", sa.Double, nullable=False),
        sa.Column("changed_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_services"),
    )
