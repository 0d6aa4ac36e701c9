"""API keys: their text, its checksum and its hash."""

import hashlib
import secrets
import string
import zlib

PREFIX = "opserve_"
RANDOM_CHARACTERS = 30
"""178 random bits."""
CHECK_CHARACTERS = 6
"""Length of the CRC-32 of the text before it, which detects a typo before any lookup."""
LENGTH = len(PREFIX) + RANDOM_CHARACTERS + CHECK_CHARACTERS
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase


def new_key() -> str:
    """The text of a new key, which is shown once and never stored."""
    body = PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(RANDOM_CHARACTERS))
    return body + _check(body)


def is_well_formed(text: str) -> bool:
    """Whether a text can be a key: length, prefix and checksum agree."""
    if len(text) != LENGTH or not (text.isascii() and text.startswith(PREFIX)):
        return False
    body = text[:-CHECK_CHARACTERS]
    return secrets.compare_digest(text[-CHECK_CHARACTERS:], _check(body))


def sha256_of(text: str) -> bytes:
    """The stored hash of a key; the text has too many random bits to be recovered from it."""
    return hashlib.sha256(text.encode()).digest()


def _check(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits: list[str] = []
    for _ in range(CHECK_CHARACTERS):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
