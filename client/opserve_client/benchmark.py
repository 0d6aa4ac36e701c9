"""What session.benchmark measured."""

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Times of an operator on the device.

    Attributes:
        samples_ms: Each sample: milliseconds of a run, the mean over the runs of the sample.
        runs: How many runs each sample is of.
    """

    samples_ms: tuple[float, ...]
    runs: tuple[int, ...]

    @property
    def median_ms(self) -> float:
        """The sample in the middle."""
        return median(self.samples_ms)

    @property
    def min_ms(self) -> float:
        """The fastest sample."""
        return min(self.samples_ms)
