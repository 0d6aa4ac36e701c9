"""Quotas and claims on the command line: units of bytes, and what is given twice."""

from typing import Any

import pytest
from typer.testing import CliRunner

from opserve_client import cli, cli_tenants
from opserve_client.errors import OpserveError


def limits(*given: str) -> dict[str, float | None]:
    return cli_tenants._limits(given)


def refused(*given: str) -> str:
    with pytest.raises(OpserveError) as caught:
        limits(*given)
    return caught.value.message


def test_quotas_of_bytes_may_have_units() -> None:
    given = ("device_memory_bytes=256MB", "bytes_in_flight=1.5GiB", "sessions=4", "streams=none")
    assert limits(*given) == {
        "device_memory_bytes": 256_000_000,
        "bytes_in_flight": 3 * 2**29,
        "sessions": 4,
        "streams": None,
    }


def test_a_quota_in_another_form_is_refused_with_the_form() -> None:
    assert "256MiB" in refused("device_memory_bytes=256Mbit")
    assert "a number" in refused("sessions=4GB")
    assert "one limit of sessions" in refused("sessions=4", "sessions=5")


@pytest.mark.parametrize("claims", [["repository"], ["repository=a/b", "repository=c/d"]])
def test_a_claim_without_a_value_or_twice_is_refused(claims: list[str]) -> None:
    options: list[Any] = [part for claim in claims for part in ("--claim", claim)]
    command = ["identity", "add", "https://gitlab.com", "lab", "ci", "--audience", "opserve"]
    result = CliRunner().invoke(cli.app, [*command, *options])
    assert isinstance(result.exception, OpserveError)
    assert "each name once" in result.exception.message
