"""Migration of a store to the newest revision; imports Alembic only where needed."""

from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, String, Table, func, inspect, select
from sqlalchemy.ext.asyncio import AsyncEngine

from opserve_server.store.engine import writing

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011")
"""All known revisions in order; each has its module in `migrations/versions`."""
REVISION = Table("opserve_revision", MetaData(), Column("version_num", String(32)))
"""Alembic's own table, renamed so that it cannot belong to another program."""
LOCK = 0x6F707365727665
"""The advisory lock of PostgreSQL for upgrades: "opserve" in ASCII."""


class UnknownRevision(Exception):
    """The store has an unknown revision, which is the message."""


async def bring_up_to_date(engine: AsyncEngine) -> None:
    """Creates the tables of a new store, or upgrades those of an older one, in one transaction.

    A second process that starts at the same time waits, and then finds the work done. Downgrades
    are not supported.

    Raises:
        UnknownRevision: A later opserve wrote the store.
    """
    async with engine.connect() as connection:
        if await connection.run_sync(_is_up_to_date):
            return
    async with writing(engine).begin() as connection:
        if engine.dialect.name == "postgresql":
            await connection.execute(select(func.pg_advisory_xact_lock(LOCK)))
        if not await connection.run_sync(_is_up_to_date):
            await connection.run_sync(upgrade, revision=REVISIONS[-1])


async def has_tables(engine: AsyncEngine) -> bool:
    """Whether opserve has created its tables there."""
    async with engine.connect() as connection:
        return await connection.run_sync(_has_revision)


def _has_revision(connection: Connection) -> bool:
    return inspect(connection).has_table(REVISION.name)


def _is_up_to_date(connection: Connection) -> bool:
    if not _has_revision(connection):
        return False
    revision = connection.scalar(select(REVISION.c.version_num))
    if revision is not None and revision not in REVISIONS:
        raise UnknownRevision(revision)
    return revision == REVISIONS[-1]


def upgrade(connection: Connection, *, revision: str) -> None:
    """Creates the tables of a revision, in the transaction of a connection."""
    from alembic import command  # noqa: PLC0415  # its import takes a fifth of a second
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    scripts = str(Path(__file__).with_name("migrations"))
    config.set_main_option("script_location", scripts.replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
