"""Where a store is: what its URL means, and what of it may be shown."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from typing_extensions import override

FORMS = (
    "sqlite:///file, or postgresql://user:password@host/database with %XX for each / ? # @ of a "
    "password, or nothing"
)
_FILE = re.compile(r"sqlite:///(?P<path>[^?#]+)")
_SERVER = re.compile(r"postgresql://([^/?#@]*@)?(?P<place>[^/?#@]*(/[^/?#@]*)?)(\?[^#@]*)?")


@dataclass(frozen=True, slots=True)
class File:
    """A file of SQLite."""

    path: Path

    @override
    def __str__(self) -> str:
        return f"sqlite:///{self.path}"

    def has_had_keys(self) -> bool:
        """Whether a key was ever made in a store at this path, also if the file is gone."""
        return _is_there(self._mark)

    def is_there(self) -> bool:
        """Whether there is a file that this process can see."""
        return _is_there(self.path)

    def note_keys(self) -> None:
        """Leaves a mark beside the file that outlives it."""
        self._mark.touch(mode=0o600)

    @property
    def _mark(self) -> Path:
        return self.path.with_name(f"{self.path.name}-had-keys")


@dataclass(frozen=True, slots=True)
class Server:
    """A database of a PostgreSQL server.

    Attributes:
        url: May hold a password.
        place: Host and database.
    """

    url: str = field(repr=False)
    place: str

    @override
    def __str__(self) -> str:
        return f"postgresql://{self.place}"

    def has_had_keys(self) -> bool:
        """Always: a server is no default, so somebody configured it."""
        return True

    def note_keys(self) -> None:
        """Nothing to leave."""


def location_of(url: str) -> File | Server:
    """Where a store is.

    Raises:
        ValueError: The URL has another form; the message is the allowed ones.
    """
    if file := _FILE.fullmatch(url):
        return File(Path(file["path"]).expanduser())
    if server := _SERVER.fullmatch(url):
        return Server(url, server["place"])
    raise ValueError(FORMS)


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except OSError:
        return False
    return True


def default_url() -> str:
    """The user's own file, where programs keep what must outlive them."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return f"sqlite:///{Path(state) / 'opserve' / 'opserve.db'}"
