"""Files of the dashboard: read and compressed once, and the same for every caller."""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import PurePath
from types import MappingProxyType

INDEX = "index.html"
_FOLDERS: Mapping[str, tuple[str, str]] = {
    "": ("opserve_server.dashboard", "page"),
    "vendor/": ("opserve_server.dashboard", "vendor"),
    "shared/": ("opserve_kernels.conformance", "page"),  # with the conformance report
}
"""Package and folder of the files below each prefix."""
_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Media types by suffix; files with another suffix are not served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticFile:
    """A file.

    Attributes:
        media_type: Its media type.
        etag: Changes with its bytes; weak, since it names both forms.
        body: Its bytes.
        packed: Its bytes, compressed by gzip.
    """

    media_type: str
    etag: str
    body: bytes
    packed: bytes


@cache
def static_files() -> Mapping[str, StaticFile]:
    """The files by their path below /dashboard/."""
    return MappingProxyType(
        {
            f"{prefix}{entry.name}": _read(entry.read_bytes(), media_type)
            for prefix, (package, folder) in _FOLDERS.items()
            for entry in files(package).joinpath(folder).iterdir()
            if (media_type := _TYPES.get(PurePath(entry.name).suffix))
        }
    )


def _read(body: bytes, media_type: str) -> StaticFile:
    return StaticFile(
        media_type=media_type,
        etag=f'W/"{sha256(body).hexdigest()[:16]}"',
        body=body,
        packed=gzip.compress(body, mtime=0),
    )
