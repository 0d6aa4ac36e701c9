"""Kernel variants of runs."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Adds them to the table of runs; those of older runs are not known."""
    column = sa.Column("kernel_variant", sa.Text, nullable=False, server_default=sa.text("''"))
    op.add_column("conformance_runs", column)
