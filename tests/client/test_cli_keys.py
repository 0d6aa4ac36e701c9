"""opserve key list: the keys that a service rejects are marked with the reason."""

import csv

import pytest
from typer.testing import CliRunner

from client.farm import Farm
from opserve.v1 import admin_service_pb2 as messages
from opserve_client import cli


def test_a_key_that_the_service_rejects_is_listed_with_the_reason(farm: Farm) -> None:
    farm.tenants["lab"] = messages.Tenant(name="lab", disabled=True)
    farm.add_key("admin", "old", ["operate"], expires_at=1.0)
    farm.add_key("admin", "lost", ["operate"], expires_at=4e9, revoked_at=1.0)
    farm.add_key("lab", "ci", ["operate"])
    farm.add_key("gone", "ci", ["operate"])
    result = CliRunner().invoke(cli.app, ["key", "list", "--csv"])
    rows = csv.DictReader(result.stdout.splitlines())
    assert {f"{row['tenant']}/{row['principal']}": row["state"] for row in rows} == {
        "admin/root": "valid",
        "admin/old": "expired",
        "admin/lost": "revoked",
        "lab/ci": "tenant disabled",
        "gone/ci": "tenant disabled",
    }


@pytest.mark.parametrize("command", [["devices"], ["key", "list"], ["ping"]])
def test_a_variable_is_the_default_of_the_address(command: list[str]) -> None:
    result = CliRunner().invoke(cli.app, command, env={"OPSERVE_ADDRESS": "ftp://farm"})
    assert "does not accept ftp://farm" in str(result.exception)
    given = [*command, "--address", "ftp://other"]
    result = CliRunner().invoke(cli.app, given, env={"OPSERVE_ADDRESS": "ftp://farm"})
    assert "does not accept ftp://other" in str(result.exception)
