"""Mutants drawn by a seed, in proportion to the lines of each package."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from typing_extensions import override

from tools.mutants.mutations import Mutation, mutations_of

PACKAGES = (
    Path("protos/opserve"),
    Path("kernels/opserve_kernels"),
    Path("server/opserve_server"),
    Path("client/opserve_client"),
    Path("client/opserve_pytest"),
)
CLAIMS = Path(__file__).parent / "equivalent.json"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutation of a file of the repository, whose path is relative to it."""

    path: Path
    mutation: Mutation
    text: str  # of the line, without its indentation and comment

    @override
    def __str__(self) -> str:
        """The place and the change."""
        return f"{self.path}:{self.mutation.line}: {self.mutation}"


def files_of(package: Path) -> list[Path]:
    """The modules of a package that are written by hand."""
    modules = sorted(package.rglob("*.py"))
    return [path for path in modules if "_pb2" not in path.name and "_sync" not in path.parts]


def mutants_of(path: Path) -> list[Mutant]:
    """All mutants of a file."""
    source = path.read_text()
    texts = [line.partition("  # ")[0].strip() for line in source.splitlines()]
    return [Mutant(path, one, texts[one.line - 1]) for one in mutations_of(source)]


def shares(lines: dict[Path, int], count: int) -> dict[Path, int]:
    """Count divided in proportion to lines: rounded down, what is left to the largest fractions."""
    total = sum(lines.values())
    parts = {package: count * number // total for package, number in lines.items()}
    fractions = sorted(lines, key=lambda package: (-(count * lines[package] % total), package))
    for package in fractions[: count - sum(parts.values())]:
        parts[package] += 1
    return parts


def draw(
    packages: list[Path], lines: Callable[[Path], set[int]], *, count: int, seed: int
) -> list[Mutant]:
    """Mutants of lines that `lines` of their file has, at most one of a line.

    A package with fewer such lines than its share gives one of each: they are fewer than `count`.
    """
    files = {package: files_of(package) for package in packages}
    sizes = {
        package: sum(len(path.read_text().splitlines()) for path in paths)
        for package, paths in files.items()
    }
    random = Random(seed)  # noqa: S311 - a draw, not a secret
    drawn: list[Mutant] = []
    for package, share in shares(sizes, count).items():
        places: dict[tuple[Path, int], list[Mutant]] = {}
        for path in files[package]:
            executed = lines(path)
            for mutant in mutants_of(path):
                if mutant.mutation.line in executed:
                    places.setdefault((path, mutant.mutation.line), []).append(mutant)
        chosen = random.sample(sorted(places), min(share, len(places)))
        drawn += [random.choice(places[place]) for place in chosen]
    return drawn


@dataclass(frozen=True, slots=True)
class Claim:
    """A mutation that changes nothing that a caller can observe, with the proof in a sentence."""

    file: str
    line: str
    mutation: str
    proof: str


def claims() -> list[Claim]:
    """All claims of equivalence, from the file beside this module."""
    return [Claim(**one) for one in json.loads(CLAIMS.read_text())]


def claim_of(mutant: Mutant) -> Claim | None:
    """The claim on a mutant."""
    key = (f"{mutant.path}", mutant.text, f"{mutant.mutation}")
    found = [one for one in claims() if (one.file, one.line, one.mutation) == key]
    return found[0] if found else None
