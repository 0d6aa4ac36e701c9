"""Drills: services that Ray places lose a process, their machine, or Ray itself."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from benchmarks.recovery import copy_of
from opserve_client import Client, OpserveError, Session
from opserve_client.private_service import Addresses
from server.store.postgresql import postgresql
from system.drills import tell
from system.ray_farm import HEAD, PROGRAMS, RAY, RayCluster, front_of, pid_of, ray_cluster

pytestmark = [
    pytest.mark.farm,
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.skipif(
        [name for _, name in socket.if_nameindex()] != ["lo"],
        reason="needs a network with loopback alone: root, unshare (apt-get install util-linux), "
        "ip (apt-get install iproute2), and make test-farm",
    ),
]
IMAGE = np.arange(64, dtype=np.float32).reshape(1, 8, 8)
FIRST, SECOND = "ascend910b-s0", "ascend910b-s1"


@pytest.fixture
def farm(monkeypatch: pytest.MonkeyPatch) -> Iterator["Farm"]:
    """A cluster without machines, and a store that the services of all machines share."""
    for name, value in RAY.items():
        monkeypatch.setenv(name, value)
    ray = import_module("opserve_server.placement.ray_cluster")  # reads the environment
    with postgresql() as store, ray_cluster() as cluster:
        url = store.url("test")
        subprocess.run([f"{PROGRAMS / 'opserve'}", "bootstrap", "--store", url], check=True)
        settings = {"OPSERVE_STORE_URL": url, "OPSERVE_NO_KEYS": "true"}
        yield Farm(cluster, os.environ | settings, ray)


@dataclass(frozen=True, slots=True)
class Farm:
    """Services on a cluster.

    Attributes:
        environment: Of the command.
        ray: The module that imports Ray.
    """

    cluster: RayCluster
    environment: dict[str, str]
    ray: Any

    def command(self, *words: str) -> dict[str, Addresses]:
        """Runs `opserve farm`; returns the addresses that it prints, by the names of services."""
        done = subprocess.run(
            [f"{PROGRAMS / 'opserve'}", "farm", *words, "--ray", HEAD],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found = [line.split() for line in done.stdout.splitlines() if " http://" in line]
        return {name: Addresses(grpc=grpc, rest=rest) for name, grpc, rest in found}

    def hosts(self, address: Addresses) -> set[str]:
        """The services whose devices `opserve farm status` shows, by one of them."""
        command = [f"{PROGRAMS / 'opserve'}", "farm", "status", "--json", "--address", address.grpc]
        shown = subprocess.run(command, env=self.environment, capture_output=True, check=True)
        return {device["host"] for device in json.loads(shown.stdout)}

    def recovery_s(self, service: str, before: Addresses) -> float:
        """Seconds until a service computes at another address than before."""
        began_s = time.monotonic()
        with self.ray.connected(HEAD):
            while (found := self.ray.addresses([service])[service])["grpc"] == before.grpc:
                pass
        assert works(Addresses(**found))
        return time.monotonic() - began_s


@contextmanager
def finished_work(address: Addresses) -> Generator[tuple[Session, Callable[[], None]]]:
    """A session with a finished result, and a check that the session still has it and works."""
    with Client(address.grpc) as client, client.open_session() as session:
        result = session.upload(session.run(copy_of(IMAGE)).out)

        def check() -> None:
            assert np.array_equal(result.download(), IMAGE)
            assert np.array_equal(session.run(copy_of(IMAGE)).out, IMAGE)

        check()
        yield session, check


def works(address: Addresses) -> bool:
    """Whether a service opens a session and computes."""
    try:
        with finished_work(address):
            return True
    except (OpserveError, OSError):
        return False


def test_services_are_placed_scaled_drained_and_ended(farm: Farm) -> None:
    farm.cluster.add_machine(ascend910b=2, reference=1)
    assert set(farm.command("up", "ascend910b=2")) == {FIRST, SECOND}
    scaled = farm.command("scale", "ascend910b=1", "reference=1")
    assert set(scaled) == {FIRST, "reference-s0"}
    while farm.hosts(scaled[FIRST]) != {FIRST, "reference-s0"}:
        pass  # the next renewals bring the one and end the other
    farm.command("drain", FIRST)
    replaced = farm.command("scale", "ascend910b=1")
    assert replaced[FIRST] != scaled[FIRST]
    assert works(replaced[FIRST])
    farm.command("down")
    assert not works(replaced[FIRST])
    assert farm.command("scale", "ascend910b=0") == {}


def test_a_killed_service_returns_and_the_others_lose_nothing(farm: Farm) -> None:
    farm.cluster.add_machine(ascend910b=2)
    before = farm.command("up", "ascend910b=2")
    with finished_work(before[SECOND]) as (_, check):
        os.kill(front_of(FIRST), signal.SIGKILL)
        tell("service killed, started again by Ray", farm.recovery_s(FIRST, before[FIRST]))
        check()
    assert farm.command("scale", "ascend910b=2")[SECOND] == before[SECOND]


def test_services_of_a_lost_machine_start_on_another_one(farm: Farm) -> None:
    lost = farm.cluster.add_machine(ascend910b=1)
    farm.command("up", "ascend910b=1")
    farm.cluster.add_machine(ascend910b=2)
    before = farm.command("scale", "ascend910b=2")
    with finished_work(before[SECOND]) as (_, check):
        os.kill(pid_of(lost, "raylet"), signal.SIGKILL)
        recovery_s = farm.recovery_s(FIRST, before[FIRST])
        tell("raylet killed, its service started on another machine", recovery_s)
        check()
    assert farm.command("scale", "ascend910b=2")[SECOND] == before[SECOND]


def test_services_work_without_the_head_of_the_cluster(farm: Farm) -> None:
    farm.cluster.add_machine(ascend910b=1)
    before = farm.command("up", "ascend910b=1")
    with finished_work(before[FIRST]) as (_, check):
        os.kill(pid_of(farm.cluster.head, "gcs_server"), signal.SIGKILL)
        began_s = time.monotonic()
        assert works(before[FIRST])
        tell("head of Ray killed, a session opened on a service", time.monotonic() - began_s)
        check()
