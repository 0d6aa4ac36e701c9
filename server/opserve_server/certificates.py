"""Names in a verified client certificate, the same for both APIs.

The names are the subject in RFC 4514 form ("CN=ci,O=Farm", the most specific part first), and those
of the subjectAltName ("URI:spiffe://farm/ci", "DNS:ci.farm").
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "givenName": "GN",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "street",
    "surname": "SN",
    "userId": "UID",
}
_SPECIAL = frozenset(',+"\\<>;')
_ALTERNATIVES = ("URI", "DNS")
_PRINTABLE = range(0x20, 0x7F)


def names_in_certificate(found: Mapping[str, Any] | None) -> Sequence[str]:
    """The names, from the peer certificate of Python's ssl."""
    if not found:
        return ()
    subject = ",".join("+".join(map(_written, part)) for part in reversed(found["subject"]))
    alternatives = found.get("subjectAltName", ())
    return (
        subject,
        *(f"{kind}:{name}" for kind, name in alternatives if kind in _ALTERNATIVES),
    )


def names_in_auth_context(found: Mapping[str, Iterable[bytes]]) -> Sequence[str]:
    """The names, from the auth context of gRPC."""
    subject = (name.decode() for name in found.get("x509_subject", ()))
    alternatives = (
        f"{kind}:{name.decode()}"
        for kind in _ALTERNATIVES
        for name in found.get(f"peer_{kind.lower()}", ())
    )
    return (*subject, *alternatives)


def _written(attribute: tuple[str, str]) -> str:
    name, value = attribute
    written = "".join(map(_escaped, value))
    if value.startswith(("#", " ")):
        written = f"\\{written}"
    if value.endswith(" ") and len(value) > 1:
        written = f"{written[:-1]}\\ "
    return f"{_SHORT.get(name, name)}={written}"


def _escaped(character: str) -> str:
    if character in _SPECIAL:
        return f"\\{character}"
    if ord(character) in _PRINTABLE:
        return character
    return "".join(f"\\{byte:02X}" for byte in character.encode())
