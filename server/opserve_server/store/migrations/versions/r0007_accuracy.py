"""Accuracy and documented rules of runs."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Adds them to the table of runs; until now the deterministic level chose the accuracy."""
    for name, before in (("accuracy", "direct"), ("documented_rules", "error")):
        column = sa.Column(name, sa.Text, nullable=False, server_default=before)
        op.add_column("conformance_runs", column)
    runs = sa.table("conformance_runs", sa.column("accuracy"), sa.column("deterministic_level"))
    off = runs.c.deterministic_level == "OFF"
    op.execute(runs.update().where(off).values(accuracy="fast"))
