"""The form of an error's text: a sentence with a subject, a verb and a full stop."""

import re

from opserve_kernels.errors import TEXT_CHARACTERS

_BEGINNING = re.compile(r"[A-Z0-9'\"`]|--|[a-z_][\w.\[\]'…-]* ")
"""A capital, a number, a quoted value, an option, or the name of a parameter and its verb."""
_TEMPLATE = re.compile(r": given |\bgiven .*, allowed ")


def faults_of(text: str) -> list[str]:
    """Reasons why a text is no sentence of the service."""
    faults = {
        "a beginning without subject": not _BEGINNING.match(text),
        "no end of a sentence": not text.endswith((".", "?")),
        "two full stops": text.endswith(".."),
        "the parts without a verb": _TEMPLATE.search(text) is not None,
        "a line break": "\n" in text,
        "too long": len(text) > TEXT_CHARACTERS,
    }
    return [fault for fault, found in faults.items() if found]
