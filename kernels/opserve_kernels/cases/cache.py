"""Arrays on disk by key, for any number of processes at once; torn files are ignored.

A file is written under another name and renamed once complete; .npz has a checksum of each array.
The folder is $XDG_CACHE_HOME/opserve/expected-values, or that below ~/.cache.
"""

import contextlib
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from zipfile import BadZipFile

import numpy as np

from opserve_kernels.cases.fill import Array

LIMIT_BYTES = 2 << 30
"""Bytes of all files; the standard suite needs about a twelfth."""
_KEPT = 0.8  # fraction of the limit that remains when files are dropped
_SUFFIX = ".npz"
_OURS = re.compile(r"[0-9a-f]{64}.*\.(npz|part)")
"""Names of files that may be dropped: a folder may also contain files of others."""


def cache_folder() -> Path:
    """The folder of expected values, by the XDG base directories."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "opserve" / "expected-values"


class Cache:
    """Arrays by key, 64 hexadecimal digits.

    Args:
        folder: The folder; created with the first file.
        limit_bytes: Bytes of all files; those unused for longest are dropped.
    """

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._folder, self._limit_bytes = folder, limit_bytes
        self._written_bytes = limit_bytes  # the first file then measures the folder

    def get(self, key: str) -> Mapping[str, Array] | None:
        """The arrays of a key, if they are stored and intact."""
        path = self._path(key)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as loaded:
                found = {name: loaded[name] for name in loaded.files}
            os.utime(path)
        except (OSError, ValueError, EOFError, BadZipFile, zlib.error, KeyError):
            return None
        return found

    def put(self, key: str, arrays: Mapping[str, Array]) -> None:
        """Stores arrays; a disk that is full or read-only is no error."""
        path = self._path(key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(
                dir=path.parent, prefix=key, suffix=".part", delete=False
            ) as file:
                try:
                    np.savez(file, allow_pickle=False, **arrays)
                    file.close()
                    Path(file.name).replace(path)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
            self._written_bytes += path.stat().st_size
            if self._written_bytes > self._limit_bytes // 8:
                self._written_bytes = 0
                self._drop()

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}{_SUFFIX}"

    def _drop(self) -> None:
        """Drops the files unused for longest, until there is room again."""
        ours = (path for path in self._folder.glob("*/*") if _OURS.fullmatch(path.name))
        files = [(path, path.stat()) for path in ours]
        total = sum(about.st_size for _, about in files)
        if total <= self._limit_bytes:
            return
        for path, about in sorted(files, key=lambda file: file[1].st_mtime):
            path.unlink(missing_ok=True)
            total -= about.st_size
            if total <= _KEPT * self._limit_bytes:
                return
