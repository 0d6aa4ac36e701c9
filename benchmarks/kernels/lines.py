"""What is known of one shape once it was measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.measure import Figure

THREADS = 2
"""Of a call of Suite.THREADS."""


class Suite(StrEnum):
    """What a shape was measured for; all but FAST with direct sums, as a session has by default."""

    CONVOLUTION = "convolution"
    FAST = "convolution, fast"
    RANDOM = "random"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FOLD = "fold"
    FILTER = "filter gradient"
    THREADS = "two threads"


class Part(StrEnum):
    """What of a call a ratio is told of: PyTorch's seconds over ours."""

    GRAD_INPUT = "grad_input"
    GRAD_WEIGHT = "grad_weight"
    ALL = "all"
    ALL_BEST = "all_better_layout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A shape that was measured.

    Attributes:
        suite: What for.
        shape: Its name.
        text: Its sizes.
        algorithm: What the plan tells of its choice.
        work: Operations of all that the call computes; bytes that a fold moves at least.
        ours_s: Seconds of our call of everything.
        theirs_s: Seconds of PyTorch's.
        ratios: PyTorch's seconds over ours.
        error: Our largest error relative to the largest exact value.
        their_error: PyTorch's.
    """

    suite: Suite
    shape: str
    text: str
    algorithm: str
    work: float
    ours_s: float
    theirs_s: float
    ratios: Mapping[Part, Figure]
    error: float
    their_error: float

    @property
    def ours_rate(self) -> float:
        """Work in a second, in thousands of millions."""
        return self.work / self.ours_s / 1e9

    @property
    def their_rate(self) -> float:
        return self.work / self.theirs_s / 1e9
