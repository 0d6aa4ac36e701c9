"""The files of docs/deploy: systemd's unit, and manifests for Kubernetes and KubeRay."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from opserve_server.app import KILL_AFTER_S
from opserve_server.settings import Settings
from skips import needs_program
from test_containers import SETTINGS, settings_of_the_image

FOLDER = Path(__file__).resolve().parent.parent / "docs/deploy"
ANALYZE = shutil.which("systemd-analyze")
UNIT = FOLDER / "opserve@.service"
MANIFESTS = sorted(FOLDER.glob("*.yml"))
KUBERNETES = "1.33"
STOP_S = Settings.model_fields["drain_timeout_s"].default + KILL_AFTER_S
RAY_CLUSTER = {"rayVersion", "headGroupSpec", "workerGroupSpecs"}
RAY_GROUP = {"rayStartParams", "template"}
RAY_WORKERS = RAY_GROUP | {"groupName", "replicas", "minReplicas", "maxReplicas"}
"""Members of KubeRay's RayCluster that the manifest has, by its Go types."""


def documents(path: Path) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all(path))  # pyright: ignore[reportUnknownMemberType]


def resources() -> Iterator[dict[str, Any]]:
    for path in MANIFESTS:
        yield from documents(path)


def pods() -> Iterator[dict[str, Any]]:
    """The templates of pods."""
    for one in resources():
        spec = one["spec"]
        if one["kind"] == "RayCluster":
            yield from (group["template"] for group in groups_of(one))
        elif "template" in spec:
            yield spec["template"]


def groups_of(cluster: dict[str, Any]) -> list[dict[str, Any]]:
    return [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]


def variables() -> Iterator[dict[str, Any]]:
    for pod in pods():
        for container in pod["spec"]["containers"]:
            yield from container["env"]


@needs_program("systemd-analyze", there=ANALYZE is not None, package="systemd")
def test_the_unit_is_accepted_by_systemd(tmp_path: Path) -> None:
    text = UNIT.read_text()
    copy = tmp_path / UNIT.name.replace("@", "@ascend910b-0")
    copy.write_text(text.replace("/usr/local/bin/opserve serve", f"{shutil.which('true')}"))
    done = subprocess.run(
        [ANALYZE or "", "verify", "--man=no", copy],
        capture_output=True,
        text=True,
        check=False,
    )
    about_the_unit = [line for line in done.stderr.splitlines() if UNIT.stem in line]
    assert (done.returncode, about_the_unit) == (0, [])


def test_the_unit_and_the_manifests_set_only_settings_that_exist() -> None:
    named = set(re.findall(r"^[^#]*?(OPSERVE_\w+)=", UNIT.read_text(), re.MULTILINE))
    named |= {one["name"] for one in variables() if one["name"].startswith("OPSERVE_")}
    assert "OPSERVE_FARM_NAME" in named
    assert named <= SETTINGS


def test_each_stop_leaves_time_for_the_drain() -> None:
    (limit,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)
    limits = [pod["spec"].get("terminationGracePeriodSeconds", 30) for pod in pods()]
    assert min(int(limit), *limits) > STOP_S


def test_the_ports_of_pods_are_those_of_their_settings() -> None:
    for pod in pods():
        for container in pod["spec"]["containers"]:
            own = {one["name"]: one["value"] for one in container["env"] if "value" in one}
            set_here = settings_of_the_image() | own
            bound = [set_here[f"OPSERVE_{api}_ADDRESS"] for api in ("GRPC", "REST")]
            named = [one["containerPort"] for one in container.get("ports", [])]
            assert named in ([int(one.rpartition(":")[2]) for one in bound], [])


def test_every_ray_of_a_manifest_requires_a_token() -> None:
    clusters = [one for one in resources() if one["kind"] == "RayCluster"]
    assert clusters
    for group in (group for cluster in clusters for group in groups_of(cluster)):
        for container in group["template"]["spec"]["containers"]:
            own = {one["name"]: one for one in container["env"]}
            assert own["RAY_AUTH_MODE"]["value"] == "token"
            assert "secretKeyRef" in own["RAY_AUTH_TOKEN"]["valueFrom"]


def test_a_manifest_of_kuberay_has_the_members_of_a_ray_cluster() -> None:
    (cluster,) = [one for one in resources() if one["kind"] == "RayCluster"]
    assert cluster["apiVersion"] == "ray.io/v1"
    assert set(cluster["spec"]) == RAY_CLUSTER
    head, *workers = groups_of(cluster)
    assert set(head) == RAY_GROUP
    assert [set(group) for group in workers] == [RAY_WORKERS] * len(workers)
    for group in (head, *workers):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())


@pytest.mark.farm
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_conforms_to_the_schemas_of_kubernetes(path: Path) -> None:
    validate = import_module("kubernetes_validate").validate
    for one in documents(path):
        for resource in as_kubernetes(one):
            validate(resource, KUBERNETES, strict=True)


def as_kubernetes(resource: dict[str, Any]) -> list[dict[str, Any]]:
    """A resource, or for a RayCluster its pods, as Kubernetes has no schema of that."""
    if resource["kind"] != "RayCluster":
        return [resource]
    return [
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": template}
        for template in (group["template"] for group in groups_of(resource))
    ]
