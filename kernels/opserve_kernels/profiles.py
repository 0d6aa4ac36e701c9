"""Virtual devices by name: properties of products, as data.

The support of an operator is part of the operator (Operator.support).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from opserve_kernels.errors import InvalidArgument, rejection
from opserve_kernels.status import Status
from opserve_kernels.user_input import likely_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A product family that a virtual device represents.

    Attributes:
        name: The name that a session requests.
        products: The vendor's product names.
        aliases: The vendor's names that a session may request; * matches any ending.
        saturates: Whether a value beyond FLOAT16's range becomes its greatest one, not infinite.
        hf32_mantissa_bits: Mantissa bits of HF32; 0 where there is no HF32.
        cores: Cores that a core mask may name; 0 where no call has one.
        is_reference: Whether sums are accumulated in float64, on a separate code path.
        unverified: Properties in this row that the vendor does not document.
    """

    name: str
    products: str
    aliases: tuple[str, ...] = ()
    saturates: bool = False
    hf32_mantissa_bits: int = 0
    cores: int = 0
    is_reference: bool = False
    unverified: tuple[str, ...] = ()


_ATLAS_A2 = (
    *("Ascend910B*", "Ascend910_93*", "Atlas A2", "Atlas A2 training", "Atlas 800I A2"),
    *("Atlas 800I A2 inference", "Atlas A2 training/Atlas 800I A2 inference"),
    *("Atlas A3", "Atlas A3 training", "Atlas A3 inference"),
)
_ATLAS_TRAINING = (
    *("Ascend910", "Ascend910A", "Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA"),
    "Atlas training",
)
_ATLAS_200_A2 = (
    *("Ascend310B*", "Atlas 200/500 A2", "Atlas 200/500 A2 inference"),
    *("Atlas 200I/500 A2", "Atlas 200I/500 A2 inference"),
)
PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="ascend910b",
            products="Atlas A2 training, Atlas 800I A2 inference",
            aliases=_ATLAS_A2,
            hf32_mantissa_bits=11,
            unverified=("overflow of FLOAT16", "ties of HF32"),
        ),
        Profile(
            name="ascend910",
            products="Atlas training",
            aliases=_ATLAS_TRAINING,
            saturates=True,
            unverified=("overflow of FLOAT16",),
        ),
        Profile(
            name="ascend310p",
            products="Atlas inference",
            aliases=("Ascend310P*", "Atlas inference"),
            saturates=True,
            unverified=("overflow of FLOAT16",),
        ),
        Profile(
            name="ascend310b",
            products="Atlas 200/500 A2 inference",
            aliases=_ATLAS_200_A2,
            saturates=True,
            hf32_mantissa_bits=10,
            unverified=("overflow of FLOAT16", "mantissa bits of HF32"),
        ),
        Profile(
            name="ascend310",
            products="Atlas 200/300/500 inference",
            aliases=("Ascend310", "Atlas 200/300/500", "Atlas 200/300/500 inference"),
            saturates=True,
            unverified=("overflow of FLOAT16",),
        ),
        Profile(
            name="ft78ne",
            products="FT78NE DSP",
            aliases=("FT78NE",),
            cores=8,
            unverified=("number of cores",),
        ),
        Profile(
            name="mt7004",
            products="MT7004 DSP",
            aliases=("MT7004",),
            cores=8,
            unverified=("number of cores", "accumulation of hp", "overflow of FLOAT16"),
        ),
        Profile(
            name="reference",
            products="none: in float64",
            hf32_mantissa_bits=11,
            cores=8,
            is_reference=True,
        ),
    )
}
DEFAULT_PROFILE = "ascend910b"
_KNOWN_IN_PART = "ascend950"
_VENDORS_WORDS = {
    "训练": "training",
    "推理": "inference",
    **dict.fromkeys(("系列", "产品", "series", "products", "product"), ""),
}


@lru_cache(maxsize=64)
def profile_named(name: str, *, available: tuple[str, ...] = tuple(PROFILES)) -> Profile:
    """The profile with a name, with product names, or with an alias.

    Case and spaces make no difference, nor do the vendor's words series and product; training and
    inference may be Chinese.

    Args:
        name: The requested name.
        available: Names of the profiles to choose from.

    Raises:
        InvalidArgument: 107001, the name is none of those available; the message has the reason.
    """
    spelling = _plain(name)
    known = next((known for pattern, known in _PATTERNS if fnmatchcase(spelling, pattern)), None)
    if known is not None and known.name in available:
        return known
    likely = likely_name(name, available)
    why = f"not known; did you mean {likely}?" if likely else "not known"
    if known is not None:
        why = "known, but not served here"
    elif spelling.startswith(_KNOWN_IN_PART):
        why = "whose rules are known only in part"
    allowed = ", ".join(available)
    raise InvalidArgument(
        Status.ACL_ERROR_RT_INVALID_DEVICEID,
        rejection("profile", given=f"{name} ({why})", allowed=allowed),
        parameter="profile",
        given=name,
        allowed=allowed,
    )


def _plain(name: str) -> str:
    text = "".join(name.casefold().split())
    for word, meaning in _VENDORS_WORDS.items():
        text = text.replace(word, meaning)
    return text


_PATTERNS = [
    (_plain(pattern), profile)
    for profile in PROFILES.values()
    for pattern in (profile.name, profile.products, *profile.aliases)
]
