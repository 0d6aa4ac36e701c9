"""Statistics of models: counts and durations of calls, for each tenant."""

import time
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from opserve_server.core.accounts import Account
from opserve_server.inference.models import Model

_NS_PER_S = 1e9
_MS_PER_S = 1e3


@dataclass(slots=True)
class Duration:
    """A number of events, and their time.

    Attributes:
        count: The number.
        ns: The time, nanoseconds.
    """

    count: int = 0
    ns: int = 0

    def add(self, seconds: float) -> None:
        """Counts one more."""
        self.count += 1
        self.ns += round(seconds * _NS_PER_S)


@dataclass(slots=True)
class ModelCounts:
    """Calls of one model by one tenant.

    Attributes:
        success: Calls that succeeded, from their message to their outputs.
        fail: Calls that failed.
        compute: Of calls that succeeded, the wait for a device and the computation.
        output: Of calls that succeeded, the copy of their outputs.
        last_ms: Time of the last one that succeeded, in milliseconds since 1970.
    """

    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    compute: Duration = field(default_factory=Duration)
    output: Duration = field(default_factory=Duration)
    last_ms: int = 0

    def succeeded(self, compute_s: float, output_s: float) -> None:
        """Counts a call that succeeded."""
        self.success.add(compute_s + output_s)
        self.compute.add(compute_s)
        self.output.add(output_s)
        self.last_ms = round(time.time() * _MS_PER_S)

    def failed(self, seconds: float) -> None:
        """Counts a call that failed."""
        self.fail.add(seconds)


class Statistics:
    """The counts by account and model; those of a deleted tenant end with its account."""

    def __init__(self) -> None:
        self._counts: WeakKeyDictionary[Account, dict[str, ModelCounts]] = WeakKeyDictionary()

    def of(self, account: Account, model: Model) -> ModelCounts:
        """The counts of a model."""
        return self._counts.setdefault(account, {}).setdefault(model.name, ModelCounts())
