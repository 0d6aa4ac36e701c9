"""Names and numbers of a farm's services, and what a Ray address requires."""

import pytest

from opserve_server.placement.farm import (
    AUTH_MODE,
    RAY_ENVIRONMENT,
    Refused,
    changes_to,
    check_access,
    counts_of,
    profile_of,
)


def test_numbers_are_read_by_profile() -> None:
    assert counts_of(["ascend910b=2", "reference=0"]) == {"ascend910b": 2, "reference": 0}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("ascend910b", "'ascend910b' is no number of services"),
        ("ascend910b=-1", "N from 0 to 1000"),
        ("ascend910b=1001", "N from 0 to 1000"),
        ("ascend910c=1", "did you mean ascend910"),
        ("=1", "is no number of services"),
    ],
)
def test_what_is_no_number_of_services_is_rejected(given: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        counts_of([given])


def test_a_profile_is_given_once() -> None:
    with pytest.raises(Refused, match="ascend910b is given twice"):
        counts_of(["ascend910b=1", "ascend910b=2"])


def test_new_services_have_the_lowest_free_numbers() -> None:
    running = ["ascend910b-s0", "ascend910b-s2", "reference-s0"]
    start, drain = changes_to({"ascend910b": 4}, running)
    assert (start, drain) == (["ascend910b-s1", "ascend910b-s3"], [])


def test_the_services_with_the_highest_numbers_end_and_other_profiles_stay() -> None:
    running = [f"ascend910b-s{number}" for number in range(11)] + ["reference-s0"]
    start, drain = changes_to({"ascend910b": 9}, running)
    assert (start, drain) == ([], ["ascend910b-s9", "ascend910b-s10"])


def test_the_number_that_is_there_changes_nothing() -> None:
    assert changes_to({"reference": 1}, ["reference-s0"]) == ([], [])


def test_a_service_has_the_profile_of_its_name() -> None:
    assert profile_of("ascend910b-s10") == "ascend910b"


@pytest.mark.parametrize("address", ["local", "127.0.0.1:6379", "[::1]:6379", "localhost:6379"])
def test_a_ray_that_only_this_machine_reaches_needs_no_token(address: str) -> None:
    check_access(address, {AUTH_MODE: "disabled"})


@pytest.mark.parametrize("address", ["ray.example:6379", "10.0.0.7:6379", "[2001:db8::1]:6379"])
def test_a_ray_that_other_machines_reach_needs_the_token_mode(address: str) -> None:
    check_access(address, {AUTH_MODE: "token"})
    check_access(address, {})
    with pytest.raises(Refused, match=r"RAY_AUTH_MODE is 'disabled'.*set RAY_AUTH_MODE=token"):
        check_access(address, {AUTH_MODE: "disabled"})


def test_the_token_mode_is_the_default() -> None:
    assert RAY_ENVIRONMENT[AUTH_MODE] == "token"


@pytest.mark.parametrize("address", ["", "ray.example", "ray://ray.example:10001", "local:x"])
def test_what_is_no_address_of_a_ray_cluster_is_rejected(address: str) -> None:
    with pytest.raises(Refused, match="is no address of a Ray cluster: write HOST:PORT"):
        check_access(address, {})
