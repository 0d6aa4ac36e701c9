"""A number that grows with every change of tenants, keys and certificates."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Makes the table and its only row."""
    changes = op.create_table("changes", sa.Column("number", sa.BigInteger, nullable=False))
    op.bulk_insert(changes, [{"number": 0}])
