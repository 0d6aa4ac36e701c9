"""make bench-kernels: speed and accuracy of the kernels, beside PyTorch."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version

from rich.progress import track

from benchmarks.kernels import peer
from benchmarks.kernels.comparisons import (
    compare_fast,
    compare_filters,
    compare_folds,
    compare_forward,
    compare_gradients,
    compare_in_depth,
    compare_on_threads,
    compare_unfolds,
)
from benchmarks.kernels.draw import SEED, random_shapes
from benchmarks.kernels.end_to_end import compare_end_to_end
from benchmarks.kernels.goals import goals_of, write_goals
from benchmarks.kernels.growth import FAMILIES, grow, write_points
from benchmarks.kernels.lines import THREADS, Line, Suite
from benchmarks.kernels.peak import loops_at_once, peak_operations
from benchmarks.kernels.plot import draw
from benchmarks.kernels.regret import COUNT, Regret, regrets, show_regrets
from benchmarks.kernels.report import Setting, show_goals, show_lines, write_lines
from benchmarks.kernels.shapes import ConvolutionShape
from benchmarks.kernels.suites import CONVOLUTIONS, FILTERS, FOLDS, HALVES, THREADED
from benchmarks.machine import core, family, processor

Comparison = Callable[[int], Line]

_ROUNDS, _QUICK_ROUNDS = 9, 3
_LEAST_LOOPS = 1.7  # multiply-add loops that two threads must run in the time of one


def main() -> None:
    """Measures, prints, and writes benchmarks/out/kernels.{json,csv,png}."""
    options = _options()
    peer.use_threads(1)
    rounds = _QUICK_ROUNDS if options.quick else options.rounds
    if options.regret:
        _choices(options.seed, rounds)
        return
    if options.growth:
        found = grow(processor(), peak_operations(), rounds, theirs=peer.gradients_peer)
        families = track(found, "families", len(FAMILIES))
        print(f"written to {write_points([point for points in families for point in points])}")
        return
    comparisons = _comparisons(options.seed, options.shapes, loops=_loops())
    setting = _setting(rounds)
    lines = [compare(rounds) for compare in track(comparisons, description="shapes")]
    lines += compare_end_to_end(_of(CONVOLUTIONS, options.shapes), rounds)
    show_lines(lines, setting)
    if options.shapes:
        return  # a selection has no goals, and must not replace the files of a whole run
    goals = goals_of(lines, _choices(options.seed, rounds), setting.family)
    show_goals(goals)
    for path in (write_goals(goals), write_lines(lines, setting), draw(lines, setting)):
        print(f"written to {path}")


def _choices(seed: int, rounds: int) -> list[Regret]:
    """Forces every algorithm of every shape, and prints where the choice was wrong."""
    shapes = (*CONVOLUTIONS, *random_shapes(seed, count=COUNT))
    progress = track(shapes, description="choices")
    found = [one for shape in progress for one in regrets([shape], rounds)]
    show_regrets(found)
    return found


def _of(shapes: Sequence[ConvolutionShape], names: Sequence[str] | None) -> list[ConvolutionShape]:
    """Returns the named shapes, or all without names."""
    return [shape for shape in shapes if not names or shape.name in names]


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument(
        "--shapes", nargs="+", metavar="NAME", help="measure only these shapes; writes no files"
    )
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help=f"number of rounds ({_ROUNDS})")
    parser.add_argument("--quick", action="store_true", help=f"measure only {_QUICK_ROUNDS} rounds")
    parser.add_argument(
        "--regret", action="store_true", help="force every algorithm; writes no files"
    )
    parser.add_argument(
        "--growth",
        action="store_true",
        help="measure each algorithm over growing shapes; writes docs/pictures/kernels-growth.csv",
    )
    parser.add_argument("--seed", type=int, default=SEED, help=f"seed of random shapes ({SEED})")
    return parser.parse_args()


def _loops() -> float | None:
    """Returns how many loops the threads run in the time of one; None if too few."""
    reached = loops_at_once(THREADS)
    if reached >= _LEAST_LOOPS:
        return reached
    print(
        f"{THREADS} threads run {reached:.2f} loops in the time of one, fewer than {_LEAST_LOOPS}: "
        "figures of several threads would show other processes, and are left out"
    )
    return None


def _comparisons(
    seed: int, names: Sequence[str] | None, *, loops: float | None
) -> list[Comparison]:
    """Returns the comparisons for the named shapes, or for all without names.

    Args:
        seed: Seed of the random shapes.
        names: Names of shapes; None means all.
        loops: Loops that several threads run in the time of one; None leaves out their shapes.
    """
    threaded = () if loops is None else tuple((shape, loops) for shape in THREADED)
    of_suites = ((HALVES, Suite.FLOAT16), (HALVES, Suite.BFLOAT16))
    named: list[tuple[str, Comparison]] = [
        *((shape.name, partial(compare_in_depth, shape)) for shape in CONVOLUTIONS),
        *((shape.name, partial(compare_fast, shape)) for shape in CONVOLUTIONS),
        *((shape.name, partial(compare_forward, shape)) for shape in CONVOLUTIONS),
        *(
            (shape.name, partial(compare_gradients, shape, suite))
            for shapes, suite in ((random_shapes(seed), Suite.RANDOM), *of_suites)
            for shape in shapes
        ),
        *((shape.name, partial(compare_folds, shape)) for shape in FOLDS),
        *((shape.name, partial(compare_unfolds, shape)) for shape in FOLDS),
        *((shape.name, partial(compare_filters, shape)) for shape in FILTERS),
        *((shape.name, partial(compare_on_threads, shape, reached)) for shape, reached in threaded),
    ]
    if names:
        unknown = set(names) - {name for name, _ in named}
        if unknown:
            raise SystemExit(f"no such shapes: {', '.join(sorted(unknown))}")
    return [compare for name, compare in named if not names or name in names]


def _setting(rounds: int) -> Setting:
    versions = {"PyTorch": peer.version(), "numba": version("numba"), "numpy": version("numpy")}
    return Setting(
        machine=f"{processor()} ({core()})",
        family=family(),
        versions=", ".join(f"{name} {number}" for name, number in versions.items()),
        peak=peak_operations(),
        rounds=rounds,
    )


if __name__ == "__main__":
    main()
