"""What tenants used of the devices, day by day."""

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
