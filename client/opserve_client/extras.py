"""Extras of the distribution, such as `opserve[server]`, and their missing packages."""

import re
from importlib import metadata

_DISTRIBUTION = "opserve"
_EXTRA = re.compile(r"""([\w.-]+)[^;]*;.*\bextra\s*==\s*['"]([\w-]+)['"]""")


class MissingExtra(OSError):
    """Packages of a command are not installed; the message names their extra."""


def require(extra: str, *, need: str) -> None:
    """Checks that the packages of an extra are installed.

    Args:
        extra: "server", "conform", "demo", "otel" or "torch".
        need: Subject of the error's sentence: the command or function that needs the extra.

    Raises:
        MissingExtra: A package of the extra is missing.
    """
    missing = [name for name in packages_of(extra) if not _is_installed(name)]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise MissingExtra(
            f"{need} needs {missing[0]}{others}, which this environment lacks: "
            f"pip install '{_DISTRIBUTION}[{extra}]'"
        )


def packages_of(extra: str) -> list[str]:
    """Returns the direct dependencies of an extra, from the metadata of the distribution."""
    required = map(_EXTRA.match, metadata.requires(_DISTRIBUTION) or [])
    return [found[1] for found in required if found and found[2] == extra]


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(re.split(r"\[", name)[0])
    except metadata.PackageNotFoundError:
        return False
    return True
