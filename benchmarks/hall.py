"""Eight tenants at one service, each in a process of its own; the eighth may turn hostile."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.customer import SMALL, WHOLE
from benchmarks.keyed import Keyed
from benchmarks.processes import Program, program
from opserve_client import Client
from opserve_server.core.tenants import Quota, Tenant

MIB = 2**20
QUOTA = Quota(
    device_memory_bytes=64 * MIB,
    sessions=8,
    buffers=512,
    executors=512,
    streams=32,
    queued_entries=512,
    calls_per_s=150.0,
    bytes_in_flight=32 * MIB,
)
"""Of every tenant: an ordinary one uses a third of its calls, and less of all else."""
ORDINARY = [f"customer-{number}" for number in range(1, 8)]
EIGHTH = "customer-8"
TENANTS = [Tenant(name=name, quota=QUOTA) for name in (*ORDINARY, EIGHTH)]
OVER_REST = ORDINARY[1::2]
"""Who uses the other face."""
KINDS = (f"{SMALL} over gRPC", f"{SMALL} over REST", WHOLE)
"""What is told apart: kinds of calls, and of small ones the face."""
QUIET_S = 30.0
"""Longest that a service may take to end what the hostile one left behind."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the seven noticed.

    Attributes:
        milliseconds: Of their calls, by kind.
        errors: Of theirs.
    """

    milliseconds: Mapping[str, list[float]] = field(
        default_factory=lambda: {kind: [] for kind in KINDS}
    )
    errors: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Hall:
    """The processes of the tenants.

    Attributes:
        ordinary: The seven, by name.
        eighth: The eighth, as long as it is ordinary too.
        hostile: The eighth, when it is not.
        client: Asks who is there.
    """

    ordinary: Mapping[str, Program]
    eighth: Program
    hostile: Program
    client: Client

    def measure(self, *, seconds: float, seed: int, deeds: Sequence[str] = ()) -> Measured:
        """Lets all eight work; the eighth does deeds, or ordinary work where there are none."""
        other = self.hostile if deeds else self.eighth
        if deeds:
            other.tell(names=deeds, seconds=seconds)
        else:
            other.tell(seconds=seconds, seed=seed)
        for number, tenant in enumerate(self.ordinary.values()):
            tenant.tell(seconds=seconds, seed=seed * len(TENANTS) + number)
        measured = Measured()
        for name, tenant in self.ordinary.items():
            worked = tenant.answer()
            face = KINDS[name in OVER_REST]
            measured.milliseconds[face].extend(worked["milliseconds"][SMALL])
            measured.milliseconds[WHOLE].extend(worked["milliseconds"][WHOLE])
            measured.errors.extend(f"{name}: {error}" for error in worked["errors"])
        other.answer()
        self._wait_until_quiet()
        return measured

    def secrets(self, keys: Mapping[str, str]) -> Mapping[str, bytes]:
        """What the eighth may not see, by what it is."""
        told = {
            f"{what} of {name}": bytes.fromhex(secret)
            for name, tenant in self.ordinary.items()
            for what, secret in tenant.greeting.items()
        }
        names = {f"the name {name}": name.encode() for name in self.ordinary}
        return told | names | {f"the key of {name}": keys[name].encode() for name in self.ordinary}

    def _wait_until_quiet(self) -> None:
        until_s = time.monotonic() + QUIET_S
        while sum(device.sessions for device in self.client.list_devices()) > len(TENANTS):
            assert time.monotonic() < until_s, "sessions of the hostile tenant do not end"
            time.sleep(0.05)


@contextmanager
def hall(service: Keyed, answers: Path) -> Generator[Hall]:
    """Eight tenants at a service until the block ends.

    Args:
        service: Where, and their keys.
        answers: File of what the hostile one is answered.
    """
    where, keys = service.addresses, service.keys
    with ExitStack() as stack:

        def customer(name: str) -> Program:
            address = where.rest if name in OVER_REST else where.grpc
            return stack.enter_context(program("benchmarks.customer", address, api_key=keys[name]))

        hostile = stack.enter_context(
            program(
                "benchmarks.hostile", where.grpc, where.rest, f"{answers}", api_key=keys[EIGHTH]
            )
        )
        yield Hall(
            ordinary={name: customer(name) for name in ORDINARY},
            eighth=customer(EIGHTH),
            hostile=hostile,
            client=stack.enter_context(Client(where.grpc, api_key=keys[ORDINARY[0]])),
        )
