"""Waiting line of a farm."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "waiting",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("rank", sa.Double, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("exclusive", sa.Boolean, nullable=False),
        sa.Column("connected", sa.Boolean, nullable=False),
        sa.Column("stays", sa.Boolean, nullable=False),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("claimed_by", sa.Text, nullable=False),
        sa.Column("claimed_until", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "request", name="pk_waiting"),
    )
    op.create_index("ix_waiting_profile_rank", "waiting", ["profile", "rank"])
