"""Errors of the operating system about files, as sentences."""

import errno
import os
from pathlib import Path

from opserve_kernels.errors import closed


def sentence_of(error: OSError) -> str:
    """Says what happened to which file, and what to do; keeps a text that names no file."""
    if error.filename is None or error.strerror is None:
        return str(error)
    path = Path(str(error.filename))
    match error:
        case FileNotFoundError() if not path.parent.exists():
            return f"There is no folder '{path.parent}' for '{path}': create it first."
        case FileNotFoundError():
            return f"There is no file or folder '{path}'."
        case PermissionError():
            return f"Access to '{path}' is denied: change its permissions or use another path."
        case IsADirectoryError():
            return f"'{path}' is a folder: name a file."
        case _:
            return closed(f"'{path}' cannot be used: {error.strerror}")


def check_writable(path: Path) -> None:
    """Checks that a file can be written, without writing it.

    Raises:
        OSError: Its folder does not exist, it is a folder, or access to it is denied.
    """
    if path.is_dir():
        raise _error(errno.EISDIR, path)
    if not path.parent.is_dir():
        raise _error(errno.ENOENT, path)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _error(errno.EACCES, path)


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
