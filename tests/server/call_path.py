"""The path of one call through the front: files of the server that run, and nested functions.

Counted is what runs in the call's own task, beneath an API's entry. What a worker's answer sets
off, and what all calls share (heartbeats, the check of health, the next turn of a tenant), is not.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType

import opserve_server

_ROOT = Path(opserve_server.__file__).parent
_ENTRIES = (
    "grpc_api/methods.py",
    "rest_api/connections.py",
    "rest_api/app.py:RestApi.__call__",
)


@dataclass
class CallPath:
    """Files and functions that ran while a call was recorded.

    Attributes:
        files: Files of the server, in the order in which they were entered.
        chains: By function, the functions on the stack when it ran first, itself the last:
            "core/service.py:Service.run".
    """

    files: dict[str, None] = field(default_factory=dict[str, None])
    chains: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def chain(self, start: str, end: str) -> list[str]:
        """The functions from the first in a file, or of a name, to one of a name."""
        chain = self.chains[end]
        first = next(place for place, name in enumerate(chain) if name.startswith(start))
        return chain[first:]


@contextmanager
def recorded_path() -> Generator[CallPath]:
    """Records what runs in this thread until the block ends."""
    path = CallPath()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or _own_file(frame.f_code.co_filename) is None:
            return
        chain = _stack(frame)
        if chain and chain[0].startswith(_ENTRIES):
            path.files.setdefault(chain[-1].partition(":")[0])
            path.chains.setdefault(chain[-1], chain)

    sys.setprofile(note)
    try:
        yield path
    finally:
        sys.setprofile(None)


def _stack(frame: FrameType | None) -> list[str]:
    names: list[str] = []
    while frame is not None:
        file = _own_file(frame.f_code.co_filename)
        if file is not None and not frame.f_code.co_name.startswith("<"):  # no generator or lambda
            names.append(f"{file}:{frame.f_code.co_qualname}")
        frame = frame.f_back
    return names[::-1]


@cache
def _own_file(path: str) -> str | None:
    given = Path(path)
    return str(given.relative_to(_ROOT)) if given.is_relative_to(_ROOT) else None
