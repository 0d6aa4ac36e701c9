"""Conformance runs, and the results of their cases."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Makes the tables."""
    _make_runs()
    op.create_table(
        "conformance_results",
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("case", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("worst", sa.Double, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("run", "place", name="pk_conformance_results"),
        sa.ForeignKeyConstraint(
            ["run"], ["conformance_runs.id"], name="fk_conformance_results_run", ondelete="CASCADE"
        ),
    )


def _make_runs() -> None:
    op.create_table(
        "conformance_runs",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("suite", sa.Text, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("operator", sa.Text, nullable=False),
        sa.Column("match", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("cases", sa.Integer, nullable=False),
        sa.Column("counts", sa.Text, nullable=False),
        sa.Column("worst", sa.Double, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("seen_at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_conformance_runs"),
    )
    op.create_index(
        "ix_conformance_runs_tenant_created_at_id",
        "conformance_runs",
        ["tenant", "created_at", "id"],
    )
