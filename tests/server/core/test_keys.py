"""The text of API keys."""

import random
import string
import zlib

import pytest

from opserve_server.core.keys import is_well_formed, new_key, sha256_of

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase


def test_a_key_has_its_form_and_its_check_is_the_crc_of_the_rest() -> None:
    key = new_key()
    assert (key[:8], len(key)) == ("opserve_", 44)
    assert set(key[8:]) <= set(ALPHABET)
    check = sum(ALPHABET.index(digit) * 62**place for place, digit in enumerate(reversed(key[38:])))
    assert check == zlib.crc32(key[:38].encode())
    assert is_well_formed(key)


def test_keys_differ_and_so_does_what_is_kept_of_them() -> None:
    keys = {new_key() for _ in range(1000)}
    assert len(keys) == len({sha256_of(key) for key in keys}) == 1000


@pytest.mark.parametrize("seed", range(3))
def test_a_typo_is_seen(seed: int) -> None:
    key, source = new_key(), random.Random(seed)  # noqa: S311  # typos, not secrets
    for place in range(8, len(key)):
        typo = source.choice(ALPHABET.replace(key[place], ""))
        assert not is_well_formed(key[:place] + typo + key[place + 1 :]), (seed, key, place)


@pytest.mark.parametrize("text", ["", "opserve_", "opserve_" + "0" * 36, "é" * 44, "a" * 100])
def test_what_is_no_key_is_seen(text: str) -> None:
    assert not is_well_formed(text)
