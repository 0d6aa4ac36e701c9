"""Eight tenants of one service in separate processes; the eighth is ordinary or hostile."""

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
"""Quota of every tenant: an ordinary one uses a seventh of its calls, and less of all else."""
MOST_OF_QUOTA = 0.9
"""Share of its calls that a busy tenant uses, so that none is rejected."""
CALIBRATION_S = 2.0
LONG_PER_S = 3.0
ORDINARY = [f"tenant-{number}" for number in range(1, 8)]
EIGHTH = "tenant-8"
TENANTS = [Tenant(name=name, quota=QUOTA) for name in (*ORDINARY, EIGHTH)]
OVER_HTTP = ORDINARY[1::2]
"""Tenants that call over HTTP."""
KINDS = (f"{SMALL} over gRPC", f"{SMALL} over HTTP", WHOLE)
"""Kinds of calls with separate measurements: small ones by API, and whole ones."""
QUIET_S = 30.0
"""Longest time for the service to end the sessions of the hostile tenant."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of the seven ordinary tenants.

    Attributes:
        load: Load of the service by all eight tenants.
        milliseconds: Durations of the seven's calls, by kind.
        errors: Errors of the seven, and of the eighth while it is ordinary.
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
        ordinary: The seven ordinary tenants, by name.
        eighth: The eighth tenant as an ordinary one.
        hostile: The eighth tenant as a hostile one.
        client: Client for the number of sessions.
        load_so_far: Reads the load of the service since its start.
    """

    ordinary: Mapping[str, Program]
    eighth: Program
    hostile: Program
    client: Client
    load_so_far: Callable[[], Load]

    def beside_hostile(self, behaviours: Sequence[str], *, seconds: float, seed: int) -> Measured:
        """Measures the seven while the eighth runs hostile behaviours."""
        self.hostile.send(names=behaviours, seconds=seconds)
        return self._measure(self.hostile, seconds=seconds, seed=seed)

    def beside_ordinary(self, work: Mapping[str, float], *, seconds: float, seed: int) -> Measured:
        """Measures the seven while the eighth works too: `work` is for TenantLoad.work."""
        self.eighth.send(seconds=seconds, seed=seed, **work)
        return self._measure(self.eighth, seconds=seconds, seed=seed)

    def _measure(self, eighth: Program, *, seconds: float, seed: int) -> Measured:
        before = self.load_so_far()
        for number, tenant in enumerate(self.ordinary.values()):
            tenant.send(seconds=seconds, seed=seed * len(TENANTS) + number)
        worked = {name: tenant.receive() for name, tenant in self.ordinary.items()}
        of_eighth = eighth.receive()
        measured = Measured(self.load_so_far() - before)
        for name, work in worked.items():
            api = KINDS[name in OVER_HTTP]
            measured.milliseconds[api].extend(work["milliseconds"][SMALL])
            measured.milliseconds[WHOLE].extend(work["milliseconds"][WHOLE])
        for name, work in (worked | {EIGHTH: of_eighth}).items():
            measured.errors.extend(f"{name}: {error}" for error in work.get("errors", ()))
        self._wait_until_quiet()
        return measured

    def secrets(self, keys: Mapping[str, str]) -> Mapping[str, bytes]:
        """Returns the secrets of the seven, by description; the eighth must see none of them."""
        secrets = {
            f"{what} of {name}": bytes.fromhex(secret)
            for name, tenant in self.ordinary.items()
            for what, secret in tenant.greeting.items()
        }
        names = {f"the name {name}": name.encode() for name in self.ordinary}
        api_keys = {f"the key of {name}": keys[name].encode() for name in self.ordinary}
        return secrets | names | api_keys

    def _wait_until_quiet(self) -> None:
        until_s = time.monotonic() + QUIET_S
        while sum(device.sessions for device in self.client.list_devices()) > len(TENANTS):
            assert time.monotonic() < until_s, "sessions of the hostile tenant do not end"
            time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class WorkCosts:
    """Load that each kind of work causes.

    Attributes:
        ordinary: Load of one ordinary tenant per second.
        long: Load of a queue of long calls.
    """

    ordinary: Load
    long: Load

    def as_much_as(self, load: Load, *, seconds: float) -> dict[str, float]:
        """Returns work for the eighth tenant with which the service has as much load as measured.

        It is within the tenant's quota, and no less than the work of each other tenant.
        """
        each = Load(self.ordinary.calls * seconds, self.ordinary.device_s * seconds)
        calls = load.calls - len(ORDINARY) * each.calls
        most_calls = MOST_OF_QUOTA * (QUOTA.calls_per_s or inf) * seconds
        device_s = load.device_s - len(TENANTS) * each.device_s
        long = max(device_s, 0.0) / self.long.device_s
        times = (min(calls, most_calls) - long * self.long.calls) / each.calls
        return {"times": max(times, 1.0), "long_per_s": long / seconds}


def measure_work_costs(processes: TenantProcesses) -> WorkCosts:
    """Measures the load of each kind of work, after a first run of all of it."""
    _, without, with_long = (
        processes.beside_ordinary({"long_per_s": rate}, seconds=CALIBRATION_S, seed=0).load
        for rate in (LONG_PER_S, 0.0, LONG_PER_S)
    )
    return WorkCosts(
        ordinary=without.each(len(TENANTS) * CALIBRATION_S),
        long=(with_long - without).each(LONG_PER_S * CALIBRATION_S),
    )


@contextmanager
def tenant_processes(service: ServiceWithKeys, answers: Path) -> Generator[TenantProcesses]:
    """Runs eight tenants of a service until the block ends.

    Args:
        service: The service and the tenants' keys.
        answers: File for the answers that the hostile tenant receives.
    """
    addresses, keys = service.addresses, service.keys
    with ExitStack() as stack:

        def load(name: str) -> Program:
            address = addresses.rest if name in OVER_HTTP else addresses.grpc
            return stack.enter_context(
                program("benchmarks.tenant_load", address, api_key=keys[name])
            )

        hostile = stack.enter_context(
            program(
                "benchmarks.hostile",
                addresses.grpc,
                addresses.rest,
                f"{answers}",
                api_key=keys[EIGHTH],
            )
        )
        yield TenantProcesses(
            ordinary={name: load(name) for name in ORDINARY},
            eighth=load(EIGHTH),
            hostile=hostile,
            client=stack.enter_context(Client(addresses.grpc, api_key=keys[ORDINARY[0]])),
            load_so_far=lambda: asyncio.run(load_so_far(addresses.rest, keys[ORDINARY[0]])),
        )
