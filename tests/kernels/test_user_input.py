"""Misspelt names get the likely one, and sizes may have units."""

import pytest

from opserve_kernels.errors import InvalidArgument
from opserve_kernels.profiles import PROFILES, profile_named
from opserve_kernels.user_input import bytes_of, choices, likely_name


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("910b", "ascend910b"),
        ("ascend910", "ascend910"),
        ("Ascend910-B", "ascend910b"),
        ("referense", "reference"),
        ("310P", "ascend310p"),
        ("910", ""),
        ("b", ""),
        ("gpu", ""),
        ("", ""),
    ],
)
def test_a_misspelt_or_partial_name_gets_the_name_that_it_means(given: str, meant: str) -> None:
    assert likely_name(given, PROFILES) == meant


def test_an_unknown_profile_gets_all_profiles_and_the_likely_one() -> None:
    with pytest.raises(InvalidArgument) as caught:
        profile_named("910b")
    assert "ascend310p, " in caught.value.message
    assert "did you mean ascend910b?" in caught.value.message
    with pytest.raises(InvalidArgument) as caught:
        profile_named("gpu")
    assert "did you mean" not in caught.value.message


def test_choices_list_the_names_in_their_order() -> None:
    assert choices(("smoke", "standard"), "smok") == "smoke, standard; did you mean smoke?"
    assert choices(("smoke", "standard"), "42") == "smoke, standard"


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("268435456", 2**28),
        ("256MiB", 2**28),
        ("256MB", 256 * 10**6),
        ("256mb", 256 * 10**6),
        (" 1.5 GiB ", 3 * 2**29),
        ("0.1GB", 10**8),
        ("64k", 64_000),
        ("4KiB", 4096),
        ("2TB", 2 * 10**12),
        ("12B", 12),
    ],
)
def test_a_size_may_have_a_unit(text: str, size_bytes: int) -> None:
    assert bytes_of(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["", "MB", "-1", "1e3", "256 Mbit", "0.5", "1.0001KiB", "5PB", "1_0"]
)
def test_another_text_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"a whole number of bytes, such as .* 256MiB"):
        bytes_of(text)
