"""Known failures, and their results in a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opserve_client.conform.record import RunRecord
from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.file_errors import sentence_of
from opserve_kernels.cases.suite import matches
from opserve_kernels.verdict.verdict import GOOD, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A line in a file of known failures.

    Attributes:
        pattern: Pattern of cases (suite.matches).
        reason: Text after the #.
    """

    pattern: str
    reason: str

    @property
    def text(self) -> str:
        """The line."""
        return f"{self.pattern}  # {self.reason}" if self.reason else self.pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """Known failures that match cases of a run.

    Attributes:
        failing: First line that matches a failing case, by the case's id.
        passing: First line that matches a passing case, by the case's id, if all cases that the
            line matches pass: XPASS.
        unmatched: Lines that match no case of the run.
    """

    failing: Mapping[str, Known] = field(default_factory=dict[str, Known])
    passing: Mapping[str, Known] = field(default_factory=dict[str, Known])
    unmatched: tuple[Known, ...] = ()

    @property
    def unexpected(self) -> tuple[Known, ...]:
        """The lines whose cases all pass."""
        return tuple(dict.fromkeys(self.passing.values()))


NOTHING_KNOWN = Expectations()


def read_known(path: Path) -> tuple[Known, ...]:
    """Reads a file of known failures: on each line a pattern, # and the reason.

    Raises:
        InfrastructureError: The file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InfrastructureError(f"known failures: {sentence_of(error)}") from error
    except UnicodeDecodeError as error:
        raise InfrastructureError(f"known failures: {path} is no text in UTF-8.") from error
    parts = [line.partition("#") for line in lines]
    return tuple(
        Known(pattern=pattern.strip(), reason=reason.strip())
        for pattern, _, reason in parts
        if pattern.strip()
    )


def expectations(record: RunRecord, known: Sequence[Known]) -> Expectations:
    """Matches known failures with the results of a run."""
    failing, passing, unmatched = dict[str, Known](), dict[str, Known](), list[Known]()
    for line in known:
        tried = [one for one in record.results if matches(one.case, [line.pattern])]
        unmatched += [] if tried else [line]
        failed = [one.case.id for one in tried if one.verdict.status not in GOOD]
        passed = [one.case.id for one in tried if one.verdict.status is Status.PASSED]
        of_line = dict.fromkeys(failed or passed, line)
        if failed:
            failing = of_line | failing
        else:
            passing = of_line | passing
    return Expectations(failing=failing, passing=passing, unmatched=tuple(unmatched))
