"""Quotas and claims on the command line: units of bytes, and what is given twice."""

import math
from typing import Any

import pytest
from typer.testing import CliRunner

from opserve_client import cli, cli_tenants
from opserve_client.errors import OpserveError
from opserve_client.request_forms import limits_and_lifted


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
    assert limits("sessions=-1") == {"sessions": -1}, "its range is checked later, as it was given"
    assert "one limit of sessions" in refused("sessions=4", "sessions=5")


@pytest.mark.parametrize(
    ("resource", "limit", "kind"),
    [
        ("sessions", -1, "a whole number"),
        ("sessions", 2.5, "a whole number"),
        ("sessions", 2**63, "a whole number"),
        ("calls_per_s", -0.5, "a number"),
        ("calls_per_s", math.nan, "a number"),
        ("calls_per_s", math.inf, "a number"),
        ("streams", "4", "a whole number"),
        ("streams", True, "a whole number"),
    ],
)
def test_a_limit_out_of_its_range_is_refused_with_its_name_and_range(
    resource: str, limit: Any, kind: str
) -> None:
    with pytest.raises(OpserveError) as caught:
        limits_and_lifted({"buffers": None, resource: limit})
    assert caught.value.parameter == f"quota.{resource}"
    allowed = f"; it accepts {kind}, 0 to 9223372036854775807, or none for no limit."
    assert caught.value.message.endswith(allowed)
    assert limits_and_lifted({"calls_per_s": 0.5, "sessions": 2.0, "buffers": None}) == (
        {"calls_per_s": 0.5, "sessions": 2.0},
        ["buffers"],
    )


@pytest.mark.parametrize(("days", "bound"), [("0", "0.0001"), ("-1", "0.0001"), ("4e4", "36600")])
def test_days_out_of_range_are_refused_in_the_words_of_the_option(days: str, bound: str) -> None:
    result = CliRunner().invoke(cli.app, ["key", "create", "lab", "ci", "--days", days])
    assert result.exit_code == 2
    assert "--days" in result.output
    assert f"than or equal to {bound}" in " ".join(result.output.split())


def test_an_empty_name_is_refused_as_empty() -> None:
    result = CliRunner().invoke(cli.app, ["tenant", "create", ""])
    assert isinstance(result.exception, OpserveError)
    assert result.exception.message == "name is empty: pass a value."


@pytest.mark.parametrize("claims", [["repository"], ["repository=a/b", "repository=c/d"]])
def test_a_claim_without_a_value_or_twice_is_refused(claims: list[str]) -> None:
    options: list[Any] = [part for claim in claims for part in ("--claim", claim)]
    command = ["identity", "add", "https://gitlab.com", "lab", "ci", "--audience", "opserve"]
    result = CliRunner().invoke(cli.app, [*command, *options])
    assert isinstance(result.exception, OpserveError)
    assert "each name once" in result.exception.message
