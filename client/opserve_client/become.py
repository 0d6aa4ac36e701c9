"""Replaces the command line by a program of the server."""

import os
import sys
from collections.abc import Mapping, Sequence

from opserve_client.private_service import require_server


def become(
    module: str, *, settings: Mapping[str, str] | None = None, arguments: Sequence[str] = ()
) -> None:
    """Runs a module of the server in this process, with settings beside those of the environment.

    Raises:
        OSError: The system is not Linux, or the server is not installed.
    """
    require_server()
    command = [sys.executable, "-P", "-m", module, *arguments]
    os.execve(sys.executable, command, os.environ | (settings or {}))  # noqa: S606  # itself
