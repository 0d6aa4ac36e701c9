"""Stores at the newest revision, each a copy of one that was migrated.

A migration takes longer than most tests of a store.
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import create_engine

from opserve_server.store.upgrade import REVISIONS, upgrade


def migrated_file(folder: Path) -> str:
    """Creates a file of SQLite with all tables, and returns its URL."""
    path = folder / "opserve.db"
    path.write_bytes(_tables())
    return f"sqlite:///{path}"


@cache
def _tables() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "opserve.db"
        engine = create_engine(f"sqlite:///{path}")
        with engine.begin() as connection:
            upgrade(connection, revision=REVISIONS[-1])
        engine.dispose()
        return path.read_bytes()
