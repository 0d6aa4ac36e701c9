"""The calls of conformance as values: what each asks and answers, on every wire."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSuites:
    """Lists the suites that the operators' contracts make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCases:
    """Lists cases of a suite, in its order."""

    suite: str = ""
    seed: int = 0
    operator: str = ""
    match: str = ""
    cursor: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GetCase:
    """Tells what a case is."""

    suite: str = ""
    case: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GetInputs:
    """Answers an .npz file with the inputs of a case."""

    suite: str = ""
    case: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GetGolden:
    """Answers an .npz file with what each output must be, and the magnitudes of its sums."""

    suite: str = ""
    case: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Judges outputs of a case, the arrays of an .npz file."""

    suite: str = ""
    case: str = ""
    seed: int = 0
    code: str = ""


OfCase = GetCase | GetInputs | GetGolden | Verify


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteInfo:
    """A suite."""

    name: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suites:
    """Every suite."""

    suites: Sequence[SuiteInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseInfo:
    """A case of a suite; see opserve.v1.CaseInfo."""

    id: str
    operator: str
    profile: str
    expect: str
    tags: Sequence[str]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePage:
    """Some cases of a suite; the cursor asks for the next ones, and is empty where none is."""

    cases: Sequence[CaseInfo]
    cursor: str
    total: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCase:
    """A case: the line of JSON that a suite has of it."""

    definition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A verdict: its status, the reason in one sentence, and the whole of it as JSON."""

    case: str
    status: str
    reason: str
    verdict: str


ANSWERS: Mapping[type, type] = {ListSuites: Suites, ListCases: CasePage, GetCase: OneCase}
"""The calls that carry no arrays, by their request, and what each answers."""
