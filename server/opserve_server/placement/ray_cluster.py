"""Services of a farm on a Ray cluster: one actor a service. No call and no byte passes through Ray.

A service takes one placement group on one machine: a CPU for its front process, and for its device
a CPU for each thread and one unit of the resource that has the name of the profile.
"""

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any

import grpc
import ray  # pyright: ignore[reportMissingImports]  # of the extra [ray]

from opserve_kernels.profiles import PROFILES
from opserve_server.addresses import is_loopback
from opserve_server.placement.farm import (
    AUTH_MODE,
    LOCAL,
    TOKEN,
    Refused,
    changes_to,
    profile_of,
)
from opserve_server.placement.service_process import ServiceProcess, service_environment

NAMESPACE = "opserve"
PLACEMENT_TIMEOUT_S = 60.0
"""Time for the cluster to reserve the resources of one service."""
START_TIMEOUT_S = 600.0
"""Time for services to accept calls; the first start on a machine compiles kernels."""
_LOCAL_HOST = "127.0.0.1"
_LOCAL_MARK = "opserve_local"
"""A resource of a Ray that this module started: its services are reached on loopback alone."""
_LOCAL_UNITS = 1000
"""Logical resources of a Ray on this machine, which thus limits nothing."""
_INTERVAL_S = 0.2
_LEAST_LIFE_S = 2.0
"""A service that cannot start is started again after this time at the earliest."""
_PROBE = "/ray.rpc.NodeInfoGcsService/CheckAlive"

_ray: Any = ray


@contextmanager
def connected(address: str) -> Generator[str]:
    """A connection to a Ray cluster until the block ends, or a Ray on this machine for that time.

    Yields:
        The address of the cluster's head.

    Raises:
        Refused: The cluster does not answer, or accepts calls without a token off loopback.
    """
    options: dict[str, Any] = {"namespace": NAMESPACE, "logging_level": "ERROR"}
    if address == LOCAL:
        options |= {
            "address": "local",
            "num_cpus": _LOCAL_UNITS,
            "resources": dict.fromkeys((*PROFILES, _LOCAL_MARK), _LOCAL_UNITS),
            "include_dashboard": False,
            "_system_config": {"enable_worker_prestart": False},
        }
    else:
        _check_tokens(address)
        options["address"] = address
    try:
        context = _ray.init(**options)
    except (ConnectionError, RuntimeError, _ray.exceptions.RayError) as error:
        first = str(error).strip().partition("\n")[0]
        raise Refused(
            f"No Ray cluster can be used at {address} ({first}): run the command on a machine of "
            "the cluster, with its token."
        ) from error
    try:
        yield context.address_info["gcs_address"]
    finally:
        _ray.shutdown()


def services() -> list[str]:
    """The names of the services that this cluster runs."""
    return sorted(_ray.util.list_named_actors())


def scale(counts: Mapping[str, int], *, settings: Mapping[str, str]) -> None:
    """Starts and drains services until each profile has its number.

    Args:
        counts: Numbers of services by profile; other profiles stay as they are.
        settings: Settings of new services, by their variables.

    Raises:
        Refused: The cluster has no room for one of them; then none of them is started.
    """
    _remove_unused_groups()
    start, drained = changes_to(counts, services())
    threads = int(settings.get("OPSERVE_DEVICE_THREADS", "1"))
    groups = _reserved(start, threads=threads)
    host = _LOCAL_HOST if _LOCAL_MARK in _ray.cluster_resources() else ""
    for name, group in groups.items():
        in_group = _ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=0
        )
        actor: Any = _ray.remote(_Service).options(
            name=name,
            lifetime="detached",
            max_restarts=-1,
            max_task_retries=-1,
            num_cpus=1,
            scheduling_strategy=in_group,
        )
        actor.remote(name, settings, host)
    drain(drained)


def drain(names: Sequence[str]) -> None:
    """Drains services, all at once, and frees their resources.

    Raises:
        Refused: The cluster has no service of such a name.
    """
    running = services()
    for name in names:
        if name not in running:
            there = f"those of this cluster are {', '.join(running)}" if running else "it has none"
            raise Refused(f"The cluster has no service {name!r}: {there}.")
    actors = [_ray.get_actor(name) for name in names]
    _ray.get([actor.drain.remote() for actor in actors])
    for actor in actors:
        _ray.kill(actor)
    while set(names) & set(services()):
        time.sleep(_INTERVAL_S)
    _remove_unused_groups()


def addresses(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The addresses of services by API, once all of them accept calls.

    Raises:
        Refused: One does not in time; its log says why.
    """
    ready: dict[str, dict[str, str]] = {}
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while missing := [name for name in names if name not in ready]:
        if time.monotonic() > deadline_s:
            raise Refused(
                f"{missing[0]} does not accept calls after {START_TIMEOUT_S:g} s: its log is among "
                "those of Ray's workers."
            )
        for name in missing:
            found = _ray.get(_ray.get_actor(name).addresses.remote())
            if found is not None:
                ready[name] = found
        time.sleep(_INTERVAL_S)
    return ready


class _Service:
    """The actor: runs one service, and ends with it, so that Ray starts both again."""

    def __init__(self, name: str, settings: Mapping[str, str], host: str) -> None:
        environment = service_environment(
            name,
            profile=profile_of(name),
            host=host or _ray.util.get_node_ip_address(),
            settings=settings,
        )
        self._drains = False
        self._process = ServiceProcess(environment)
        Thread(target=self._end_with_service, daemon=True).start()

    def addresses(self) -> dict[str, str] | None:
        return self._process.addresses

    def drain(self) -> None:
        self._drains = True
        self._process.drain()

    def _end_with_service(self) -> None:
        began_s = time.monotonic()
        self._process.wait()
        if not self._drains:
            time.sleep(max(_LEAST_LIFE_S - (time.monotonic() - began_s), 0.0))
            os._exit(1)


def _reserved(names: Sequence[str], *, threads: int) -> dict[str, Any]:
    """Placement groups of services, by their names: all of them, or none and an error."""
    groups: dict[str, Any] = {}
    for name in names:
        profile = profile_of(name)
        bundles = [{"CPU": 1}, {"CPU": threads, profile: 1}]
        groups[name] = _ray.util.placement_group(
            bundles, strategy="STRICT_PACK", name=name, lifetime="detached"
        )
    for name, group in groups.items():
        if not group.wait(PLACEMENT_TIMEOUT_S):
            for reserved in groups.values():
                _ray.util.remove_placement_group(reserved)
            profile = profile_of(name)
            raise Refused(
                f"No machine of the cluster has room for {name}: a service takes {1 + threads} "
                f"CPUs and one unit of the resource {profile!r} on one machine. Start a machine "
                f"with `ray start --resources='{{\"{profile}\": 1}}'`, or drain another service."
            )
    return groups


def _remove_unused_groups() -> None:
    """Frees what services had that are gone, such as those of an interrupted command."""
    running = services()
    for group in _ray.util.placement_group_table().values():
        name = group["name"]
        if name and name not in running and group["state"] != "REMOVED":
            _ray.util.remove_placement_group(_ray.util.get_placement_group(name))


def _check_tokens(address: str) -> None:
    """Calls the head without a token, which it must reject unless only this machine reaches it."""
    if is_loopback(address):
        return
    opened: Any = grpc.insecure_channel(address)  # typed for messages, which are bytes here
    with opened as channel:
        try:
            channel.unary_unary(_PROBE)(b"", timeout=PLACEMENT_TIMEOUT_S)
        except grpc.RpcError as error:
            failed: Any = error
            if failed.code() is grpc.StatusCode.UNAUTHENTICATED:
                return
            raise Refused(f"No head of a Ray cluster answers at {address}.") from error
    raise Refused(
        f"The Ray cluster at {address} runs code for everyone who reaches it: start each of its "
        f"machines with {AUTH_MODE}={TOKEN}."
    )
