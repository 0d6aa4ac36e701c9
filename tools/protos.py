"""Generates the Python code beside the protos; --check fails if it is stale and writes nothing."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROTOS = Path(__file__).resolve().parent.parent / "protos"
GENERATED = "*_pb2*.py*"


def main() -> int:
    """Generates or compares the code; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when stale")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        if check:
            return report(stale(fresh))
        for old in sources(PROTOS, GENERATED):
            (PROTOS / old).unlink()
        for new in sources(fresh, GENERATED):
            shutil.copyfile(fresh / new, PROTOS / new)
    return 0


def generate(target: Path) -> None:
    """Runs protoc: messages for every proto, stubs only for protos with a service."""
    messages = [str(path) for path in sources(PROTOS, "*.proto")]
    services = [name for name in messages if name.endswith("_service.proto")]
    protoc("--python_out", "--mypy_out", "mypy", target=target, files=messages)
    protoc("--grpc_python_out", "--mypy_grpc_out", "mypy_grpc", target=target, files=services)


def protoc(code: str, stubs: str, plugin: str, *, target: Path, files: list[str]) -> None:
    """Writes the code and the type stubs of some protos into target."""
    scripts = Path(sys.executable).parent
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", "-I."),
            f"--plugin=protoc-gen-{plugin}={scripts / f'protoc-gen-{plugin}'}",
            *(f"{code}={target}", f"{stubs}=quiet:{target}", *files),
        ],
        cwd=PROTOS,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
    )


def stale(fresh: Path) -> list[Path]:
    """Returns the generated files that are missing, superfluous or different."""
    names = {*sources(fresh, GENERATED), *sources(PROTOS, GENERATED)}
    return sorted(name for name in names if content(fresh / name) != content(PROTOS / name))


def content(path: Path) -> bytes | None:
    """Returns the bytes of a file; None if there is no such file."""
    return path.read_bytes() if path.exists() else None


def sources(root: Path, pattern: str) -> list[Path]:
    """Returns the matching files under root, sorted and relative to root."""
    return sorted(
        path.relative_to(root) for path in root.rglob(pattern) if "__pycache__" not in path.parts
    )


def report(names: list[Path]) -> int:
    """Prints the stale files; returns the exit status."""
    for name in names:
        print(f"stale: protos/{name}; run make protos")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
