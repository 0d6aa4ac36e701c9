"""Terms on which a conformance run tries and judges a case."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
_COLUMNS = (
    ("repeats", sa.Integer, "1"),
    ("standards", sa.Text, "[]"),
    ("gates", sa.Text, "[]"),
    ("deterministic_level", sa.Text, "DETERMINISTIC"),
)


def upgrade() -> None:
    """Adds them to the table of runs."""
    for name, kind, before in _COLUMNS:
        column = sa.Column(name, kind, nullable=False, server_default=before)
        op.add_column("conformance_runs", column)
