"""The release before this one: a commit that a shallow clone, or a copy without git, lacks.

`protos/previous_release.binpb` and `tests/previous_release_names.txt` are its protos and its
public names. CONTRIBUTING.md describes when all three change.
"""

import shutil
import subprocess
from pathlib import Path

VERSION = "0.2.0"
COMMIT = "debb64b"
REPOSITORY = Path(__file__).resolve().parent.parent
NAMES = REPOSITORY / "tests/previous_release_names.txt"
"""A public name a line, behind its kind and a tab."""


def is_there() -> bool:
    if shutil.which("git") is None:
        return False
    command = ["git", "cat-file", "-e", f"{COMMIT}^{{commit}}"]
    return not subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True).returncode
