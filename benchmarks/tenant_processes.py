"""Eight tenants at one service, each in a process of its own; the eighth may turn hostile."""

import asyncio
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from benchmarks.processes import Program, program
from benchmarks.service_with_keys import Load, ServiceWithKeys, load_so_far
from benchmarks.tenant_load import SMALL, WHOLE
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
"""Of every tenant: an ordinary one uses a seventh of its calls, and less of all else."""
MOST_OF_QUOTA = 0.9
"""Of its calls that a busy one uses: it is to be refused none."""
CALIBRATION_S = 2.0
LONG_PER_S = 3.0
ORDINARY = [f"customer-{number}" for number in range(1, 8)]
EIGHTH = "customer-8"
TENANTS = [Tenant(name=name, quota=QUOTA) for name in (*ORDINARY, EIGHTH)]
OVER_REST = ORDINARY[1::2]
"""Who uses the other API."""
KINDS = (f"{SMALL} over gRPC", f"{SMALL} over REST", WHOLE)
"""What is told apart: kinds of calls, and of small ones the API."""
QUIET_S = 30.0
"""Longest that a service may take to end what the hostile one left behind."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the seven noticed.

    Attributes:
        load: What the service did for all eight.
        milliseconds: Of their calls, by kind.
        errors: Of theirs, and of the eighth's where that was ordinary.
    """

    load: Load
    milliseconds: Mapping[str, list[float]] = field(
        default_factory=lambda: {kind: [] for kind in KINDS}
    )
    errors: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class TenantProcesses:
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
    load_so_far: Callable[[], Load]

    def beside_hostile(self, behaviours: Sequence[str], *, seconds: float, seed: int) -> Measured:
        """Lets the seven work, while the eighth does deeds."""
        self.hostile.tell(names=behaviours, seconds=seconds)
        return self._measure(self.hostile, seconds=seconds, seed=seed)

    def beside_ordinary(self, work: Mapping[str, float], *, seconds: float, seed: int) -> Measured:
        """Lets all eight work, the eighth as Customer.work says."""
        self.eighth.tell(seconds=seconds, seed=seed, **work)
        return self._measure(self.eighth, seconds=seconds, seed=seed)

    def _measure(self, eighth: Program, *, seconds: float, seed: int) -> Measured:
        before = self.load_so_far()
        for number, tenant in enumerate(self.ordinary.values()):
            tenant.tell(seconds=seconds, seed=seed * len(TENANTS) + number)
        worked = {name: tenant.answer() for name, tenant in self.ordinary.items()}
        of_eighth = eighth.answer()
        measured = Measured(self.load_so_far() - before)
        for name, work in worked.items():
            api = KINDS[name in OVER_REST]
            measured.milliseconds[api].extend(work["milliseconds"][SMALL])
            measured.milliseconds[WHOLE].extend(work["milliseconds"][WHOLE])
        for name, work in (worked | {EIGHTH: of_eighth}).items():
            measured.errors.extend(f"{name}: {error}" for error in work.get("errors", ()))
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


@dataclass(frozen=True, slots=True)
class Usual:
    """What work comes to.

    Attributes:
        ordinary: Of one ordinary tenant in a second.
        long: Of a queue of long calls.
    """

    ordinary: Load
    long: Load

    def as_much_as(self, load: Load, *, seconds: float) -> dict[str, float]:
        """Work of an eighth beside which the service does as much as it did in a measurement.

        That is no more than its quota allows, and no less than each of the others has.
        """
        each = Load(self.ordinary.calls * seconds, self.ordinary.device_s * seconds)
        calls = load.calls - len(ORDINARY) * each.calls
        most_calls = MOST_OF_QUOTA * (QUOTA.calls_per_s or inf) * seconds
        device_s = load.device_s - len(TENANTS) * each.device_s
        long = max(device_s, 0.0) / self.long.device_s
        times = (min(calls, most_calls) - long * self.long.calls) / each.calls
        return {"times": max(times, 1.0), "long_per_s": long / seconds}


def usual(processes: TenantProcesses) -> Usual:
    """Measures what work comes to, after all of it was done once."""
    _, without, with_long = (
        processes.beside_ordinary({"long_per_s": rate}, seconds=CALIBRATION_S, seed=0).load
        for rate in (LONG_PER_S, 0.0, LONG_PER_S)
    )
    return Usual(
        ordinary=without.each(len(TENANTS) * CALIBRATION_S),
        long=(with_long - without).each(LONG_PER_S * CALIBRATION_S),
    )


@contextmanager
def processes(service: ServiceWithKeys, answers: Path) -> Generator[TenantProcesses]:
    """Eight tenants at a service until the block ends.

    Args:
        service: Where, and their keys.
        answers: File of what the hostile one is answered.
    """
    where, keys = service.addresses, service.keys
    with ExitStack() as stack:

        def load(name: str) -> Program:
            address = where.rest if name in OVER_REST else where.grpc
            return stack.enter_context(
                program("benchmarks.tenant_load", address, api_key=keys[name])
            )

        hostile = stack.enter_context(
            program(
                "benchmarks.hostile", where.grpc, where.rest, f"{answers}", api_key=keys[EIGHTH]
            )
        )
        yield TenantProcesses(
            ordinary={name: load(name) for name in ORDINARY},
            eighth=load(EIGHTH),
            hostile=hostile,
            client=stack.enter_context(Client(where.grpc, api_key=keys[ORDINARY[0]])),
            load_so_far=lambda: asyncio.run(load_so_far(where.rest, keys[ORDINARY[0]])),
        )
