"""Cases from untrusted JSON: every member is checked and bounded, and errors name its place."""

import json
import re
import reprlib
from collections.abc import Callable, Mapping
from math import prod
from typing import TypeVar, cast

from opserve_kernels.cases.case import DRAWN_KINDS, PASS, Case, Fill, Json, Kind, TensorCase, Value
from opserve_kernels.cases.sizing import THINNING_LIMIT
from opserve_kernels.errors import InvalidArgument, invalid_argument
from opserve_kernels.formats import BLOCK, fractal_z_shape
from opserve_kernels.operators import OPERATOR_NAMES
from opserve_kernels.profiles import PROFILES
from opserve_kernels.status import DeconvStatus, Status, TbeStatus
from opserve_kernels.tensor import DataType, Format, check_tensor, member_of

LINE_CHARACTERS = 1 << 16
TEXT_CHARACTERS = 512  # characters of a source; names and tags have NAME_CHARACTERS
NAME_CHARACTERS = 128
ENTRIES = 64  # entries of an array, and members of an object, at most
NESTING = 8
RANK_PLAIN = 4  # FRACTAL_Z has 4 dimensions too, NC1HWC0 one more
STORAGE_ELEMENTS = 1 << 30  # elements of a tensor that is allocated
MOST_INTEGER = 2**63 - 1
BOUND_LIMIT = 1 << 20
STATUSES = frozenset(
    (PASS, *(status.name for family in (Status, TbeStatus, DeconvStatus) for status in family))
)
_Named = TypeVar("_Named", DataType, Format)
_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a pair; json keeps one that is alone
_SHOWN = reprlib.Repr()
_SHOWN.maxlevel, _SHOWN.maxlist, _SHOWN.maxdict = NESTING, ENTRIES, ENTRIES
_SHOWN.maxstring = _SHOWN.maxlong = 2 * NAME_CHARACTERS

Parsed = TypeVar("Parsed")


def refusal(place: str, *, given: object, allowed: object) -> InvalidArgument:
    """The error for a part of a text, with its place (100000)."""
    status = Status.ACL_ERROR_INVALID_PARAM
    return invalid_argument(place, given=given, allowed=allowed, status=status)


def shown(value: object) -> str:
    """An untrusted value, cut off in length and depth, for a message."""
    text = _SHOWN.repr(value)
    return text if len(text) <= NAME_CHARACTERS else f"{text[:NAME_CHARACTERS]}..."


def parse_object(text: str, place: str) -> Json:
    """Parses a line as one object.

    Raises:
        InvalidArgument: It is too long, no JSON, has a member twice, or is no object.
    """
    if len(text) > LINE_CHARACTERS:
        allowed = f"at most {LINE_CHARACTERS} characters"
        raise refusal(place, given=f"{len(text)} characters", allowed=allowed)
    try:
        value: object = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise refusal(place, given=shown(text), allowed=f"a line of JSON: {error}") from error
    return _object(value, place)


def case_of(value: object, place: str) -> Case:
    """A case from its JSON form.

    Args:
        value: The object.
        place: Place of the object in error texts: "line 7".

    Raises:
        InvalidArgument: A member is missing, unknown or malformed, or the id does not belong to the
            case's content.
    """
    given = _object(value, place)
    known = {"id", "operator", "profile", "tensors", "arguments", "expect", "tags", "source"}
    _check_members(given, place, known=known, needed=("operator", "profile", "tensors"))
    operator = _one_of(given["operator"], list(OPERATOR_NAMES), f"{place}: operator")
    case = Case(
        operator=operator,
        profile=_one_of(given["profile"], PROFILES, f"{place}: profile"),
        tensors=_mapping(given["tensors"], f"{place}: tensors", _tensor),
        arguments=_mapping(given.get("arguments", {}), f"{place}: arguments", _value),
        expect=_one_of(given.get("expect", PASS), STATUSES, f"{place}: expect"),
        tags=tuple(_texts(given.get("tags", []), f"{place}: tags")),
        source=_text(given.get("source", ""), f"{place}: source", TEXT_CHARACTERS),
    )
    _check_tensors(case, place)
    if given.get("id", case.id) != case.id:
        allowed = f"{case.id}, which the case's content gives, or none"
        raise refusal(f"{place}: id", given=shown(given["id"]), allowed=allowed)
    return case


def drawn_case_of(value: object, place: str) -> Case:
    """A case from its JSON form, whose inputs follow from the definition and a seed.

    Raises:
        InvalidArgument: It is malformed, or an input is recorded: its elements are elsewhere.
    """
    case = case_of(value, place)
    for name, tensor in case.inputs.items():
        if tensor.fill is not None and tensor.fill.kind is Kind.RECORDED:
            here, allowed = f"{place}: tensors.{name}.fill.kind", ", ".join(DRAWN_KINDS)
            raise refusal(here, given=Kind.RECORDED, allowed=allowed)
    return case


def _check_tensors(case: Case, place: str) -> None:
    """Rejects fills of outputs, inputs without fill, and tensors whose storage is too large."""
    for name, tensor in case.tensors.items():
        here, is_written = f"{place}: tensors.{name}", name in case.outputs
        if (tensor.fill is None) != is_written:
            allowed = "no fill in an output" if is_written else "a fill in an input"
            raise refusal(here, given="fill" if is_written else "no fill", allowed=allowed)
        if case.is_refused:
            continue
        if tensor.dtype == DataType.UNDEFINED:
            raise refusal(f"{here}.dtype", given=tensor.dtype, allowed="a dtype with elements")
        check_tensor(here, tensor.tensor(), buffer_bytes=None)
        _check_elements(tensor, here)
        if tensor.fill is not None and tensor.fill.plain is not None:
            _check_plain(tensor, tensor.fill, tensor.fill.plain, here)


def _check_elements(tensor: TensorCase, place: str) -> None:
    """Bounds sizes: NumPy multiplies them even if one is 0."""
    for what, elements in (
        ("of storage", tensor.storage_elements),
        ("of a view, a size of 0 taken for 1", prod(size or 1 for size in tensor.shape)),
    ):
        if elements > STORAGE_ELEMENTS:
            allowed = f"at most {STORAGE_ELEMENTS} elements"
            raise refusal(f"{place}.shape", given=f"{elements} elements {what}", allowed=allowed)


def _check_plain(tensor: TensorCase, fill: Fill, plain: tuple[int, ...], place: str) -> None:
    """Checks that the plain sizes fit the blocked shape."""
    blocked: tuple[int, ...] = ()
    if len(plain) == RANK_PLAIN and min(plain) >= 1 and fill.groups <= plain[0]:
        if len(tensor.shape) == RANK_PLAIN and plain[0] % fill.groups == 0:
            blocked = fractal_z_shape(plain, fill.groups)
        elif len(tensor.shape) != RANK_PLAIN:
            blocked = (plain[0], -(-plain[1] // BLOCK), *plain[2:], BLOCK)
    if tensor.shape != blocked:
        allowed = f"what NC1HWC0 or FRACTAL_Z of shape {list(tensor.shape)} holds"
        raise refusal(f"{place}.fill.plain", given=list(plain), allowed=allowed)


def _tensor(value: object, place: str) -> TensorCase:
    given = _object(value, place)
    known = {"shape", "dtype", "format", "strides", "offset", "storage_shape", "fill"}
    _check_members(given, place, known=known, needed=("shape", "dtype"))
    dtype = _member(given["dtype"], DataType, f"{place}.dtype")
    tag = _member(given.get("format", Format.ND.value), Format, f"{place}.format")
    return TensorCase(
        shape=_integers(given["shape"], f"{place}.shape"),
        dtype=dtype,
        format=tag,
        strides=_optional(given, "strides", place, _integers),
        offset=_integer(given.get("offset", 0), f"{place}.offset"),
        storage_shape=_optional(given, "storage_shape", place, _integers),
        fill=_optional(given, "fill", place, _fill),
    )


def _fill(value: object, place: str) -> Fill:
    given = _object(value, place)
    known = {"kind", "bound", "thinning", "plain", "groups", "digest"}
    needed = ("kind", "digest") if given.get("kind") == Kind.RECORDED else ("kind",)
    _check_members(given, place, known=known, needed=needed)
    return Fill(
        kind=Kind(_one_of(given["kind"], list(Kind), f"{place}.kind")),
        bound=_integer(given.get("bound", 0), f"{place}.bound", 0, BOUND_LIMIT),
        thinning=_integer(given.get("thinning", 0), f"{place}.thinning", 0, THINNING_LIMIT),
        plain=_optional(given, "plain", place, _integers),
        groups=_integer(given.get("groups", 1), f"{place}.groups", 1),
        digest=_text(given.get("digest", ""), f"{place}.digest"),
    )


def _value(value: object, place: str) -> Value:
    if isinstance(value, dict):
        return _mapping(cast("object", value), place, _value)
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, bool):
        return value
    if not isinstance(value, list):
        return _integer(value, place)
    entries = _array(cast("object", value), place)
    flags = [entry for entry in entries if isinstance(entry, bool)]
    return tuple(flags) if len(flags) == len(entries) else _integers(entries, place)


def _mapping(
    value: object, place: str, parse: Callable[[object, str], Parsed]
) -> dict[str, Parsed]:
    if place.count(".") > NESTING:
        raise refusal(place, given="an object", allowed=f"objects in at most {NESTING} others")
    return {
        _text(name, f"{place}: a name"): parse(member, f"{place}.{shown(name)[1:-1]}")
        for name, member in _object(value, place).items()
    }


def _optional(
    given: Json, name: str, place: str, parse: Callable[[object, str], Parsed]
) -> Parsed | None:
    return parse(given[name], f"{place}.{name}") if name in given else None


def _object(value: object, place: str) -> Json:
    if not isinstance(value, dict):
        raise refusal(place, given=shown(value), allowed="an object")
    members = cast("Json", value)  # json makes names of text only
    if len(members) > ENTRIES:
        given, allowed = f"{len(members)} members", f"at most {ENTRIES} members"
        raise refusal(place, given=given, allowed=allowed)
    return members


def _check_members(given: Json, place: str, *, known: set[str], needed: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            allowed = ", ".join(sorted(known))
            raise refusal(place, given=f"a member {shown(name)}", allowed=allowed)
    for name in needed:
        if name not in given:
            raise refusal(place, given=f"no {name}", allowed=f"a member {name}")


def _array(value: object, place: str) -> list[object]:
    if not isinstance(value, list):
        raise refusal(place, given=shown(value), allowed="an array")
    entries = cast("list[object]", value)
    if len(entries) > ENTRIES:
        given, allowed = f"{len(entries)} entries", f"at most {ENTRIES} entries"
        raise refusal(place, given=given, allowed=allowed)
    return entries


def _integers(value: object, place: str) -> tuple[int, ...]:
    return tuple(_integer(entry, place) for entry in _array(value, place))


def _integer(
    value: object, place: str, least: int = -MOST_INTEGER, most: int = MOST_INTEGER
) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise refusal(place, given=shown(value), allowed=f"an integer from {least} to {most}")
    return value


def _texts(value: object, place: str) -> list[str]:
    return [_text(entry, place) for entry in _array(value, place)]


def _text(value: object, place: str, most: int = NAME_CHARACTERS) -> str:
    if not isinstance(value, str) or len(value) > most or _SURROGATE.search(value):
        raise refusal(place, given=shown(value), allowed=f"text of at most {most} characters")
    return value


def _member(value: object, kind: type[_Named], place: str) -> _Named:
    """A data type or format by its name, the vendor's spelling or the vendor's number."""
    found = member_of(value, kind)
    if found is None:
        raise refusal(place, given=shown(value), allowed=", ".join(sorted(kind)))
    return found


def _one_of(
    value: object, allowed: Mapping[str, object] | frozenset[str] | list[str], place: str
) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise refusal(place, given=shown(value), allowed=", ".join(sorted(allowed)))
    return value


def _unique(pairs: list[tuple[str, object]]) -> Json:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("an object has a member twice")
    return members


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number")
