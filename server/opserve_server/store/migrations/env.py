"""Alembic's environment: runs migrations in the transaction of the given connection."""

from alembic import context

from opserve_server.store.tables import METADATA
from opserve_server.store.upgrade import REVISION

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=REVISION.name,
)
context.run_migrations()
