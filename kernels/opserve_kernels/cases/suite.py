"""A suite of cases, and its text: a line of JSON for the header and one for each case."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256

from opserve_kernels.cases.arrays import Recorded, nothing_recorded
from opserve_kernels.cases.case import Case, Json, canonical
from opserve_kernels.cases.reading import NAME_CHARACTERS, drawn_case_of, parse_object, refusal

REVISION = 1  # of the form, and of the arithmetic of fills
CASES_LIMIT = 100_000  # cases of a suite in a file, at most
SEED_LIMIT = 2**63 - 1
_HEADER = {"suite", "revision", "seed", "cases", "digest"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Cases, with the seed of their inputs.

    Attributes:
        name: Name of the suite.
        seed: Seed of the inputs.
        cases: Cases, each id once.
        recorded: Function that returns the recorded inputs of a case, by name; another process can
            call it.
    """

    name: str
    seed: int
    cases: tuple[Case, ...]
    recorded: Recorded = nothing_recorded

    @property
    def digest(self) -> str:
        """Digest of all cases' lines: equal for suites that differ in name and seed alone."""
        total = sha256()
        for line in _lines(self):
            total.update(line.encode())
            total.update(b"\n")
        return f"sha256:{total.hexdigest()}"


def write_suite(suite: Suite) -> str:
    """The suite as text, with a line end behind the last line."""
    header: Json = {
        "suite": suite.name,
        "revision": REVISION,
        "seed": suite.seed,
        "cases": len(suite.cases),
        "digest": suite.digest,
    }
    return "".join(f"{line}\n" for line in (canonical(header), *_lines(suite)))


def read_suite(text: str) -> Suite:
    """The suite in a text; a header requires only a name.

    Raises:
        InvalidArgument: 100000; the message names the line, what was given and what is allowed.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise refusal("line 1", given="nothing", allowed="the header of a suite")
    header = parse_object(lines[0], "line 1")
    name, seed = _checked_header(header)
    if len(lines) - 1 > CASES_LIMIT:
        allowed = f"at most {CASES_LIMIT} cases"
        raise refusal(f"line {CASES_LIMIT + 2}", given=f"{len(lines) - 1} cases", allowed=allowed)
    suite = Suite(name=name, seed=seed, cases=tuple(_read_cases(lines[1:])))
    for member, actual in (("cases", len(suite.cases)), ("digest", suite.digest)):
        if header.get(member, actual) != actual:
            allowed = f"{actual}, as the lines below have it, or none"
            raise refusal(f"line 1: {member}", given=str(header[member])[:80], allowed=allowed)
    return suite


def check_seed(seed: int) -> None:
    """Rejects an invalid seed (InvalidArgument, 100000)."""
    if not 0 <= seed <= SEED_LIMIT:
        raise refusal("seed", given=seed, allowed=f"0 to {SEED_LIMIT}")


def matches(case: Case, patterns: Collection[str]) -> bool:
    """Whether a pattern with *, ? and [...] matches the case's id, source or one of its tags."""
    names = (case.id, case.source, *case.tags)
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _lines(suite: Suite) -> Iterator[str]:
    return (canonical(case.to_json()) for case in suite.cases)


def _read_cases(lines: list[str]) -> Iterator[Case]:
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 2):
        place = f"line {number}"
        case = drawn_case_of(parse_object(line, place), place)
        if case.id in seen:
            given = f"{case.id}, which line {seen[case.id]} has"
            raise refusal(f"{place}: id", given=given, allowed="cases that differ")
        seen[case.id] = number
        yield case


def _checked_header(header: Json) -> tuple[str, int]:
    unknown = sorted(set(header) - _HEADER)
    if unknown:
        allowed = ", ".join(sorted(_HEADER))
        raise refusal("line 1", given=f"a member {unknown[0][:80]}", allowed=allowed)
    name, seed, revision = header.get("suite"), header.get("seed", 0), header.get("revision", 1)
    if not isinstance(name, str) or not 0 < len(name) <= NAME_CHARACTERS:
        allowed = f"a name of at most {NAME_CHARACTERS} characters"
        raise refusal("line 1: suite", given=str(name)[:80], allowed=allowed)
    if type(seed) is not int or not 0 <= seed <= SEED_LIMIT:
        allowed = f"an integer from 0 to {SEED_LIMIT}"
        raise refusal("line 1: seed", given=str(seed)[:80], allowed=allowed)
    if revision != REVISION:
        raise refusal("line 1: revision", given=str(revision)[:80], allowed=REVISION)
    return name, seed
