"""Reported runs, and baselines."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Adds the columns, and makes the table."""
    runs = "conformance_runs"
    op.add_column(runs, sa.Column("origin", sa.Text, nullable=False, server_default="DEVICE"))
    op.add_column(runs, sa.Column("tool", sa.Text, nullable=False, server_default=sa.text("''")))
    op.create_table(
        "conformance_baselines",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("set_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name="pk_conformance_baselines"),
        sa.ForeignKeyConstraint(
            ["run"], ["conformance_runs.id"], name="fk_conformance_baselines_run"
        ),
    )
    op.create_index("ix_conformance_baselines_run", "conformance_baselines", ["run"])
