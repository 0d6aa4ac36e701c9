"""Results of session.benchmark."""

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Kernel times of an operator on the device.

    Attributes:
        samples_ms: Milliseconds of a run for each sample: the mean over the sample's runs.
        runs: Number of runs of each sample.
    """

    samples_ms: tuple[float, ...]
    runs: tuple[int, ...]

    @property
    def median_ms(self) -> float:
        """Median of the samples in milliseconds."""
        return median(self.samples_ms)

    @property
    def min_ms(self) -> float:
        """The fastest sample in milliseconds."""
        return min(self.samples_ms)
