"""The cache of compiled loops: a folder for each state of the sources that a module depends on.

Numba checks only the file of a function, not the files that it calls into. So a folder's name has a
hash of the module, of its imports from this package, and of the host that kernels are generated
for. Nothing here imports numba: the front process checks what remains to be compiled.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TextIO

from opserve_kernels.algorithms.host import VARIANT

STATES_KEPT = 8  # of a module, those used last; others are removed when it is compiled again

_PACKAGE = Path(__file__).parent
_IMPORT = re.compile(
    rf"^\s*(?:from|import) ({_PACKAGE.name}[\w.]*)(?: import (\([^)]*\)|.*))?", re.MULTILINE
)
_LOOP = re.compile(r"^@(?:compiled|entry)\(", re.MULTILINE)
_LOCK = "lock"  # a file of each folder; its time is that of the folder's last use


def base_folder() -> Path:
    """NUMBA_CACHE_DIR; else in the package; else, without write access, the user's cache."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    inside = _PACKAGE / "__pycache__"
    if os.access(inside if inside.exists() else _PACKAGE, os.W_OK):
        return inside / "loops"
    users = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(users) / "opserve"


def folders_of(modules: Iterable[str]) -> dict[str, Path]:
    """Folders of all modules with loops that importing these modules loads, in that order."""
    return {_module_of(source): folder_of(source) for source in _with_loops(modules)}


def are_compiled(modules: Iterable[str]) -> bool:
    """Whether all loops of these modules were compiled before."""
    return all(folder.exists() for folder in folders_of(modules).values())


def needs_of(modules: Iterable[str]) -> dict[str, list[str]]:
    """The same modules, each with those of them that are loaded before it."""
    found = {_module_of(source): source for source in _with_loops(modules)}
    return {
        module: [_module_of(one) for one in _with_loops([module]) if one != source]
        for module, source in found.items()
    }


@cache
def folder_of(source: Path) -> Path:
    """The folder for the loops of a file; it exists once one of them was compiled."""
    contents = sha256(str(VARIANT).encode())
    for part in _sources_of([source]):
        contents.update(_text_of(part).encode())
    # The package is part of the name: states are counted by name, and several packages have a
    # module `loops`.
    return base_folder() / f"{source.parent.name}.{source.stem}-{contents.hexdigest()[:16]}"


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Locks a folder, which is created if it is missing, against other processes."""
    if not folder.exists():
        _make_room_for(folder)
    with _lock_of(folder) as file:
        os.utime(file.fileno())
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _lock_of(folder: Path) -> TextIO:
    """The opened lock file; another process may remove the folder meanwhile."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            return (folder / _LOCK).open("w", encoding="ascii")


def _make_room_for(folder: Path) -> None:
    """Removes the states unused for longest; a process about to load one compiles it again."""
    module, _, _ = folder.name.rpartition("-")
    locks = sorted(folder.parent.glob(f"{module}-*/{_LOCK}"), key=_time_of, reverse=True)
    for lock in locks[STATES_KEPT - 1 :]:
        shutil.rmtree(lock.parent, ignore_errors=True)


def _time_of(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:  # another process removed it meanwhile
        return 0.0


def _with_loops(modules: Iterable[str]) -> list[Path]:
    sources = _sources_of(_file_of(module) for module in modules)
    return [source for source in sources if _LOOP.search(_text_of(source))]


def _sources_of(files: Iterable[Path]) -> list[Path]:
    """The files and all their imports from this package, each behind its own imports."""
    found: dict[Path, None] = {}
    begun: set[Path] = set()

    def visit(file: Path) -> None:
        if file not in begun:
            begun.add(file)
            for imported in _imports_of(file):
                visit(imported)
            found[file] = None

    for file in files:
        visit(file)
    return list(found)


@cache
def _imports_of(file: Path) -> list[Path]:
    """Imports of a file; a name imported from a package may be one of its modules."""
    return [
        _file_of(name)
        for module, members in _IMPORT.findall(_text_of(file))
        for name in (module, *(f"{module}.{member}" for member in re.findall(r"\w+", members)))
        if _file_of(name).exists()
    ]


def _module_of(source: Path) -> str:
    return ".".join(source.relative_to(_PACKAGE.parent).with_suffix("").parts)


@cache
def _file_of(module: str) -> Path:
    path = _PACKAGE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8")
