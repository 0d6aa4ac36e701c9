"""Errors of the operating system about files, as sentences."""

from pathlib import Path

from opserve_kernels.errors import closed


def sentence_of(error: OSError) -> str:
    """Says what happened to which file, and what to do; keeps a text that names no file."""
    if error.filename is None or error.strerror is None:
        return closed(str(error).removesuffix("."))
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
