"""Measurements of one shape."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.measure import Figure

THREADS = 2
"""Threads of a call of Suite.THREADS."""


class Suite(StrEnum):
    """Suites of shapes; all but FAST use direct sums, the default of a session."""

    CONVOLUTION = "convolution"
    FAST = "convolution, fast"
    FORWARD = "forward"
    RANDOM = "random"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FOLD = "fold"
    UNFOLD = "unfold"
    FILTER = "filter gradient"
    THREADS = "two threads"
    END_TO_END = "end to end"
    SMALL = "end to end, small"


MOVED = frozenset((Suite.FOLD, Suite.UNFOLD))
"""Suites whose work is moved bytes."""


class Part(StrEnum):
    """Parts of a call with a ratio: PyTorch's seconds over opserve's.

    OF_LOOPS is opserve's speed-up by threads over that of loops of multiply-adds.
    """

    GRAD_INPUT = "grad_input"
    GRAD_WEIGHT = "grad_weight"
    ALL = "all"
    ALL_BEST = "all_better_layout"
    OF_LOOPS = "speed_up_of_loops"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A measured shape.

    Attributes:
        suite: Suite of the shape.
        shape: Name of the shape.
        text: Sizes of the shape.
        algorithm: Algorithm that the plan chose.
        work: Operations of the whole call; for a fold or unfold, the least number of
            moved bytes.
        ours_s: Seconds of opserve's call with all gradients.
        theirs_s: Seconds of PyTorch's call.
        ratios: PyTorch's seconds over opserve's.
        error: Largest error of opserve relative to the largest exact value.
        their_error: The same of PyTorch.
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
        """Work per second, in units of 10^9."""
        return self.work / self.ours_s / 1e9

    @property
    def their_rate(self) -> float:
        return self.work / self.theirs_s / 1e9
