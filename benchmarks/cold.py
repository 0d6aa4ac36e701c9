"""make cold: time of the suite smoke with empty caches; writes benchmarks/out/cold.json."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time

from rich.table import Table

from benchmarks.report import Goal, console, short, show_goals, write_goals

TARGETS = {
    "torch": "a function: only float64 kernels are compiled",
    "opserve": "devices of every profile: all kernels are compiled",
}
LIMIT_S = 60.0
"""Longest time of a CI job until its first verdicts."""


def main() -> int:
    """Measures, prints and writes; the exit status is 1 if a run exceeds the limit."""
    found = {target: cold_run(target) for target in TARGETS}
    _show(found)
    goals = [
        Goal(
            goal=f"smoke of {target} from a cold start, s",
            value=sum(parts.values()),
            target=LIMIT_S,
            better="lower",
        )
        for target, parts in found.items()
    ]
    show_goals(goals)
    write_goals("cold", goals)
    return int(not all(goal.met for goal in goals))


def cold_run(target: str) -> Mapping[str, float]:
    """Returns the seconds of each part of a run, from the end of the previous part."""
    with TemporaryDirectory() as place:
        kernels, run = Path(place) / "kernels", Path(place) / "run"
        empty = {"NUMBA_CACHE_DIR": str(kernels), "XDG_CACHE_HOME": str(Path(place) / "cache")}
        options = ["--suite", "smoke", "--target", target, "--folder", str(run)]
        command = [str(Path(sys.executable).with_name("opserve")), "conform", "run", *options]
        began = time()
        subprocess.run(command, env=os.environ | empty, check=True)
        ended = time()
        compiled = [file.stat().st_mtime for file in kernels.rglob("*.nbc")]
        begun = run.stat().st_mtime  # the folder changes when the record is created
    return {
        "to the first loop": min(compiled) - began,
        "compiling": max(compiled) - min(compiled),
        "to the first case": begun - max(compiled),
        "cases and end": ended - begun,
    }


def _show(found: Mapping[str, Mapping[str, float]]) -> None:
    parts = next(iter(found.values()))
    table = Table("target", *parts, "in all", title=f"seconds, on {os.cpu_count()} cores")
    for target, seconds in found.items():
        cells = (short(value) for value in (*seconds.values(), sum(seconds.values())))
        table.add_row(f"{target} ({TARGETS[target]})", *cells)
    console().print(table)


if __name__ == "__main__":
    raise SystemExit(main())
