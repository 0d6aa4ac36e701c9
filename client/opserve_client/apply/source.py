"""A YAML file with the lines of its values, for errors that name them."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from opserve_client.files import FileError
from opserve_kernels.errors import closed

KEY = "[key]"
"""Last part of a location that means a key of a mapping, not its value."""
_REPEATED = re.compile(r'found duplicate key "([^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A YAML file.

    Attributes:
        path: Path of the file.
        text: Its text.
        content: Its content in mappings, lists and scalars.
    """

    path: Path
    text: str
    content: object

    def problem(self, location: Sequence[Hashable], sentence: str) -> str:
        """Returns a sentence behind the file and the line of a value."""
        yaml: Any = YAML()
        line = _line(yaml.load(self.text), location)
        return f"{self.path}:{line}: {' '.join(sentence.split())}"


def read_source(path: Path) -> Source:
    """Reads a YAML file.

    Raises:
        FileError: The file cannot be read, is empty or no YAML; the message has the line.
    """
    text = _text_of(path)
    try:
        yaml: Any = YAML(typ="safe", pure=True)
        content: object = yaml.load(text)
    except MarkedYAMLError as error:
        raise FileError(f"{path}{_syntax_error(error)}") from error
    except YAMLError as error:
        reason = " ".join(str(error).split())
        raise FileError(closed(f"{path}: The file is no valid YAML: {reason}")) from error
    if content is None:
        raise FileError(f"{path}:1: The file is empty: write 'tenants:' and names below it.")
    return Source(path=path, text=text, content=content)


def place(location: Sequence[Hashable]) -> str:
    """Returns the path of a value within its file: "tenants.vision.weight"."""
    return ".".join(map(str, location)) or "The document"


def _syntax_error(error: Any) -> str:  # noqa: ANN401  # ruamel.yaml has no types
    """Returns the line, where it is known, and the sentence of an error of ruamel.yaml."""
    mark = error.problem_mark or error.context_mark
    line = "" if mark is None else f":{mark.line + 1}"
    reason = f"{error.problem or error.context}"
    if repeated := _REPEATED.match(reason):
        return f"{line}: {repeated[1]} occurs twice in one mapping: keep one of them."
    return closed(f"{line}: The file is no valid YAML: {reason}")


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: not UTF-8: {error.reason}") from error


def _line(tree: Any, location: Sequence[Hashable]) -> int:  # noqa: ANN401  # nodes of ruamel.yaml
    """Returns the line of the innermost part of a location that the file has."""
    line, node = 0, tree
    for part in location:
        positions: Any = getattr(node, "lc", None)
        if positions is None or part not in (positions.data or {}):
            break
        line = positions.data[part][0]
        node = node[part]
    return line + 1
