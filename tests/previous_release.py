"""The release before this one: a commit that a shallow clone, or a copy without git, lacks."""

import shutil
import subprocess
from pathlib import Path

COMMIT = "e56e595"
REPOSITORY = Path(__file__).resolve().parent.parent


def is_there() -> bool:
    if shutil.which("git") is None:
        return False
    command = ["git", "cat-file", "-e", f"{COMMIT}^{{commit}}"]
    return not subprocess.run(command, cwd=REPOSITORY, check=False, capture_output=True).returncode
