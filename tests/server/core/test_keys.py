"""The text of API keys."""

import random
import string
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opserve_server.core.keys import is_well_formed, new_key, sha256_of

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase


def test_a_key_has_its_form_and_its_check_is_the_crc_of_the_rest() -> None:
    key = new_key()
    assert (key[:8], len(key)) == ("opserve_", 44)
    assert set(key[8:]) <= set(ALPHABET)
    check = sum(ALPHABET.index(digit) * 62**place for place, digit in enumerate(reversed(key[38:])))
    assert check == zlib.crc32(key[:38].encode())
    assert is_well_formed(key)


def test_keys_and_their_stored_digests_differ() -> None:
    keys = {new_key() for _ in range(1000)}
    assert len(keys) == len({sha256_of(key) for key in keys}) == 1000


@pytest.mark.parametrize("seed", range(3))
def test_a_typo_is_seen(seed: int) -> None:
    key, source = new_key(), random.Random(seed)  # noqa: S311  # typos, not secrets
    for place in range(8, len(key)):
        typo = source.choice(ALPHABET.replace(key[place], ""))
        assert not is_well_formed(key[:place] + typo + key[place + 1 :]), (seed, key, place)


@pytest.mark.parametrize("text", ["", "opserve_", "opserve_" + "0" * 36, "é" * 44, "a" * 100])
def test_a_malformed_key_is_recognised(text: str) -> None:
    assert not is_well_formed(text)


# Worked out apart from the code: the CRC-32 by gzip, its digits to base 62 by hand (903272177 is
# 61*62^4 + 8*62^3 + 2*62^2 + 22*62 + 5), the hash by sha256sum.
KNOWN = "opserve_0000000000000000000000000000000z82M5"
KNOWN_SHA256 = "3391f020c93eed90694c8cb81411dec8d97bcda20c22442adb09b922f74efa2e"
OTHERS = (
    "opserve_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz35bif0",
    "opserve_AbCdEfGhIjKlMnOpQrStUvWxYz01233yKBIL",
)


def test_a_key_computed_by_hand_is_equal() -> None:
    assert all(map(is_well_formed, (KNOWN, *OTHERS)))
    assert sha256_of(KNOWN).hex() == KNOWN_SHA256


@given(st.text(max_size=60) | st.text(ALPHABET + "_", min_size=44, max_size=44))
def test_any_text_is_judged_and_what_is_judged_well_has_the_form(text: str) -> None:
    if is_well_formed(text):
        assert (text[:8], len(text)) == ("opserve_", 44)
        assert set(text[8:]) <= set(ALPHABET)


@given(
    body=st.text(ALPHABET, min_size=30, max_size=30),
    place=st.integers(8, 34),
    wrong=st.text(ALPHABET, min_size=1, max_size=4),
)
def test_every_run_of_up_to_four_wrong_characters_is_seen(
    body: str, place: int, wrong: str
) -> None:
    """A CRC-32 finds every burst of 32 bits."""
    key = "opserve_" + body
    key += base62(zlib.crc32(key.encode()))
    assert is_well_formed(key)
    typo = key[:place] + wrong + key[place + len(wrong) :]
    assert is_well_formed(typo) == (typo == key)


@given(body=st.text(ALPHABET, min_size=30, max_size=30), place=st.integers(8, 36))
def test_neighbours_that_changed_places_are_seen(body: str, place: int) -> None:
    key = "opserve_" + body
    key += base62(zlib.crc32(key.encode()))
    typo = key[:place] + key[place + 1] + key[place] + key[place + 2 :]
    assert is_well_formed(typo) == (typo == key)


def base62(number: int) -> str:
    """Six digits."""
    return "".join(ALPHABET[number // 62**place % 62] for place in reversed(range(6)))
