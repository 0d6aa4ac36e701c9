"""Device use of tenants by day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """Use of the devices of a profile by a tenant in one day.

    Attributes:
        tenant: Its name.
        day: Day in UTC.
        profile: Profile of the devices.
        device_s: Run time of its calls, seconds.
        calls: Number of calls.
    """

    tenant: str
    day: date
    profile: str
    device_s: float
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """A batch of usage rows for the ledger, which counts it once even if it is sent again.

    Attributes:
        writer: The sending process.
        number: Sequence number, greater than that of the writer's previous flush.
        at: Time of its creation, seconds since 1970.
        rows: Usage since the previous flush.
    """

    writer: str
    number: int
    at: float
    rows: Sequence[LedgerRow]
