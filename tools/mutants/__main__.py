"""Draws mutants by a seed and runs each against tests that execute its line.

mutmut (3) runs mutants inside the process of the tests, and a process that a test starts has no
part in its map; cosmic-ray runs the same tests for every mutant; neither draws by a seed.
"""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from time import monotonic

from tools.mutants.coverage_map import CoverageMap, load, record
from tools.mutants.drawing import PACKAGES, Mutant, claim_of, draw
from tools.mutants.trial import Copy, Outcome, commit, copies

MAPS = Path(".mutants")
# The deselected test compares the source of the blocking client: each mutant of _async/ would fail.
FRESH = "tests/client/test_package.py::test_the_blocking_client_is_fresh"
PYTEST = f"-n 4 --dist worksteal -m 'not slow' --deselect {FRESH}"
TOGETHER = 2
TESTS_S = 40.0  # of tests for each mutant, by the durations of the recorded run
SLACK_S = 240.0  # added to a mutant's time limit: its kernels may be compiled again
KILLED_GOAL_PERCENT = 90
CLAIMED_LIMIT_PERCENT = 12
_KILLED = (Outcome.KILLED, Outcome.TIMED_OUT)


def main() -> int:
    """Prints the outcome of each mutant; returns 0 if the goals are met."""
    options = _options()
    until = monotonic() + 60 * options.minutes
    folder = options.map or MAPS / commit()
    if not folder.exists():
        record(folder, shlex.split(options.tests))
    tests_of_lines = load(folder)
    drawn = draw(options.packages, tests_of_lines.lines, count=options.count, seed=options.seed)
    outcomes: list[tuple[Mutant, Outcome]] = []
    for mutant, outcome in _outcomes(drawn, tests_of_lines, until):
        outcomes.append((mutant, outcome))
        claimed = " (claimed equivalent)" if claim_of(mutant) else ""
        print(f"{outcome}{claimed}: {mutant}", flush=True)
    return _verdict(outcomes)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--minutes", type=float, default=60, help="start no mutant after this time")
    parser.add_argument("--packages", type=Path, nargs="+", default=list(PACKAGES))
    parser.add_argument("--map", type=Path, help="coverage map: read, or recorded there")
    parser.add_argument("--tests", default=PYTEST, help="pytest's arguments, as one string")
    return parser.parse_args()


def _outcomes(
    drawn: list[Mutant], tests_of_lines: CoverageMap, until: float
) -> Iterator[tuple[Mutant, Outcome]]:
    """Runs mutants in the order of their drawing, several at a time in separate copies."""
    tests = {
        mutant: tests_of_lines.tests(mutant.path, mutant.mutation.line, limit_s=TESTS_S)
        for mutant in drawn
    }
    with (
        TemporaryDirectory(prefix="opserve-mutants-") as name,
        copies(Path(name), TOGETHER, loops=Path(name, "loops")) as trees,
    ):
        free: SimpleQueue[Copy] = SimpleQueue()
        for tree in trees:
            free.put(tree)

        def outcome(mutant: Mutant) -> Outcome:
            if monotonic() > until:
                return Outcome.NOT_RUN
            copy = free.get()
            try:
                return copy.try_mutant(mutant, tests[mutant], limit_s=3 * TESTS_S + SLACK_S)
            finally:
                free.put(copy)

        with ThreadPoolExecutor(TOGETHER) as threads:
            yield from zip(drawn, threads.map(outcome, drawn), strict=True)


def _verdict(outcomes: list[tuple[Mutant, Outcome]]) -> int:
    """Returns whether the goal's share of the mutants without a claim of equivalence is killed."""
    claimed = [(mutant, outcome) for mutant, outcome in outcomes if claim_of(mutant)]
    others = [(mutant, outcome) for mutant, outcome in outcomes if not claim_of(mutant)]
    killed = sum(outcome in _KILLED for _, outcome in others)
    refuted = [mutant for mutant, outcome in claimed if outcome in _KILLED]
    counts = Counter(outcome for _, outcome in others)
    print(f"\nof {len(outcomes)} mutants: {len(claimed)} claimed equivalent", end="")
    print("".join(f", {count} {outcome}" for outcome, count in sorted(counts.items())))
    for mutant in refuted:
        print(f"claimed equivalent, but killed: {mutant}")
    met = (
        100 * killed >= KILLED_GOAL_PERCENT * len(others)
        and 100 * len(claimed) <= CLAIMED_LIMIT_PERCENT * len(outcomes)
        and not refuted
    )
    print(
        f"killed {killed} of {len(others)} that are not claimed equivalent (goal:"
        f" {KILLED_GOAL_PERCENT} %; at most {CLAIMED_LIMIT_PERCENT} % claimed): "
        + ("met" if met else "missed")
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
