"""Values that people type: names from a list, which may be misspelt, and sizes with units."""

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from fractions import Fraction

_SIMILAR = 0.6
"""Least similarity of a suggestion, from 0 to 1: two letters of six may differ."""
_PART_CHARACTERS = 3
"""Least length of a part of a name for which the name is suggested."""
_MOST_CHARACTERS = 64
"""Greatest length of a name that is compared: a comparison takes the square of it."""
_KEY = re.compile(r"opserve_[0-9A-Za-z]{20,}")
_BYTES = re.compile(r"(\d{1,20}(?:\.\d+)?) ?(?:([kmgt])(i)?)?b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def similar_name(given: str, names: Iterable[str], *, least: float = _SIMILAR) -> str:
    """The name that a misspelt one probably means, or "".

    Args:
        given: The misspelt name; its case makes no difference.
        names: The names to choose from.
        least: Least similarity, from 0 to 1.
    """
    if len(given) > _MOST_CHARACTERS:
        return ""
    spellings = {name.casefold(): name for name in names}
    close = get_close_matches(given.casefold(), spellings, n=1, cutoff=least)
    return spellings[close[0]] if close else ""


def likely_name(given: str, names: Collection[str]) -> str:
    """The name that a misspelt or partial one probably means, or "": 910b means ascend910b."""
    part = given.casefold()
    whole = [name for name in names if part in name.casefold()]
    is_clear = len(whole) == 1 and len(part) >= _PART_CHARACTERS
    return similar_name(given, names) or (whole[0] if is_clear else "")


def choices(names: Collection[str], given: str) -> str:
    """The allowed names for an error about another one: "smoke, standard; did you mean smoke?"."""
    likely = likely_name(given, names)
    return f"{', '.join(names)}; did you mean {likely}?" if likely else ", ".join(names)


def is_like_a_key(text: str) -> bool:
    """Whether a text contains an API key, or most of one: no message repeats it."""
    return _KEY.search(text) is not None


def without_keys(text: str) -> str:
    """A text without the API keys in it."""
    return _KEY.sub("opserve_…", text)


def bytes_of(text: str) -> int:
    """A number of bytes: 268435456, 256MiB (2^20 bytes each) or 256MB (10^6 bytes each).

    Raises:
        ValueError: It is none; the message is the allowed form.
    """
    found = _BYTES.fullmatch(text.strip())
    if found is not None:
        number, prefix, binary = found.groups(default="")
        unit = (1024 if binary else 1000) ** _POWERS[prefix.casefold()]
        size = Fraction(number) * unit
        if size.denominator == 1:
            return int(size)
    raise ValueError("a whole number of bytes, such as 268435456, 256MB or 256MiB")
