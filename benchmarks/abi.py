"""make bench-abi: the C library beside its goals: start, a whole call, copies, memory."""

import argparse
import os
import subprocess
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.report import Goal, show_goals, write_goals
from opserve_client.abi.build import build
from opserve_client.private_service import private_service

PROGRAM = Path(__file__).with_name("abi_program.cpp")
ROUNDS = 7
MEGABYTE = 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="processes that measure")
    rounds = parser.parse_args().rounds
    with TemporaryDirectory() as folder:
        library = Path(folder) / "abi"
        build(library, compiler="g++")
        program = compiled(library)
        with private_service(devices='["ascend910b"]') as addresses:
            settings = {"OPSERVE_ADDRESS": addresses.rest, "LD_LIBRARY_PATH": f"{library}/lib"}
            measured = [measure(program, settings) for _ in range(rounds)]
    goals = goals_of({name: median(one[name] for one in measured) for name in measured[0]})
    show_goals(goals)
    print(write_goals("abi", goals))


def compiled(library: Path) -> Path:
    program = library / PROGRAM.stem
    words = ["g++", "-std=c++17", "-O2", f"{PROGRAM}", "-o", f"{program}"]
    folders = [f"-I{library}/include", f"-L{library}/lib"]
    subprocess.run([*words, *folders, "-lopapi", "-lascendcl", "-lnnopbase"], check=True)
    return program


def measure(program: Path, settings: dict[str, str]) -> dict[str, float]:
    """Returns the lines of one process of the program: names and numbers."""
    done = subprocess.run(
        [program], env=os.environ | settings, stdout=subprocess.PIPE, text=True, check=True
    )
    return {name: float(value) for name, value in map(str.split, done.stdout.splitlines())}


def goals_of(found: dict[str, float]) -> list[Goal]:
    rows = {
        "aclInit, ms": (found["init"], 5),
        "a whole call of aclnnIm2colBackward with its memory, median, ms": (found["sequence"], 3),
        "64 MiB to the device, times a memcpy": (found["to_device"] / found["memcpy"], 1.2),
        "64 MiB from the device, times a memcpy": (found["from_device"] / found["memcpy"], 1.2),
        "resident memory after aclrtSetDevice, MB": (found["resident"] / MEGABYTE, 8),
    }
    return [
        Goal(goal=name, value=value, target=target, better="lower")
        for name, (value, target) in rows.items()
    ]


if __name__ == "__main__":
    main()
