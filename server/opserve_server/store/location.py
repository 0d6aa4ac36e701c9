"""Location of a store: the meaning of its URL, and the part of it that may be shown."""

import os
import re
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path

from typing_extensions import override

FORMS = (
    "sqlite:///file, or postgresql://user:password@host/database with %XX for each / ? # @ of a "
    "password, or nothing"
)
_FILE = re.compile(r"sqlite:///(?P<path>[^?#]+)")
_PATH = re.compile(r"[\w./~-]+")
_SERVER = re.compile(r"postgresql://([^/?#@]*@)?(?P<place>[^/?#@]*(/[^/?#@]*)?)(\?[^#@]*)?")


class Missing(Enum):
    """Handling of a store that does not exist, or has no tables."""

    CREATE = auto()
    REJECT = auto()


@dataclass(frozen=True, slots=True)
class File:
    """A file of SQLite."""

    path: Path

    @override
    def __str__(self) -> str:
        return f"sqlite:///{self.path.absolute()}"

    def has_had_keys(self) -> bool:
        """Whether a store at this path ever had a key, even if the file was deleted."""
        return _is_there(self._mark)

    def is_there(self) -> bool:
        """Whether there is a file that this process can see."""
        return _is_there(self.path)

    def note_keys(self) -> None:
        """Creates a marker beside the file that outlives it."""
        self._mark.touch(mode=0o600)

    @property
    def _mark(self) -> Path:
        return self.path.with_name(f"{self.path.name}-had-keys")


@dataclass(frozen=True, slots=True)
class Server:
    """A database of a PostgreSQL server.

    Attributes:
        url: URL, possibly with a password.
        place: Host and database.
    """

    url: str = field(repr=False)
    place: str

    @override
    def __str__(self) -> str:
        return f"postgresql://{self.place}"

    def has_had_keys(self) -> bool:
        """Always true: a server is never a default, so it was configured."""
        return True

    def note_keys(self) -> None:
        """Does nothing: a server needs no marker."""


def location_of(url: str) -> File | Server:
    """The location of a store.

    Raises:
        ValueError: The URL has another form; the message lists the allowed ones.
    """
    if file := _FILE.fullmatch(url):
        return File(Path(file["path"]).expanduser())
    if server := _SERVER.fullmatch(url):
        return Server(url, server["place"])
    if _PATH.fullmatch(url):
        raise ValueError(f"{FORMS}; did you mean sqlite:///{url}?")
    raise ValueError(FORMS)


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except OSError:
        return False
    return True


def default_url() -> str:
    """URL of the user's own file, in the folder for persistent state."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return f"sqlite:///{Path(state) / 'opserve' / 'opserve.db'}"
