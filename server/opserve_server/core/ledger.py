"""What tenants used of the devices, day by day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """What a tenant used in a day on the devices of a profile.

    Attributes:
        tenant: Its name.
        day: In UTC.
        profile: Of the devices.
        device_s: Time that its calls ran on them, seconds.
        calls: How many ran.
    """

    tenant: str
    day: date
    profile: str
    device_s: float
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """Usage on its way to the ledger, which counts it once however often it comes.

    Attributes:
        writer: The process that brings it.
        number: Greater than that of its last one.
        at: When it was made, seconds since 1970.
        rows: What came since then.
    """

    writer: str
    number: int
    at: float
    rows: Sequence[LedgerRow]
