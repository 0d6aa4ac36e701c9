"""Virtual devices by name: what a product is, as data.

What a device offers of an operator stands with the operator (Operator.support).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from opserve_kernels.errors import InvalidArgument
from opserve_kernels.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A product family that a virtual device stands for.

    Attributes:
        name: The name that a session asks for.
        products: The vendor's product names.
        aliases: The vendor's other spellings that a session may ask for.
        saturates: Whether a value beyond FLOAT16's range becomes its greatest one, not infinite.
        hf32_mantissa_bits: Mantissa bits of HF32; 0 where there is no HF32.
        cores: Cores that a core mask may name; 0 where no call has one.
        exact: Whether sums are accumulated in float64, on a code path of its own.
        unverified: What of this row the vendor does not say.
    """

    name: str
    products: str
    aliases: tuple[str, ...] = ()
    saturates: bool = False
    hf32_mantissa_bits: int = 0
    cores: int = 0
    exact: bool = False
    unverified: tuple[str, ...] = ()


_ATLAS_A2 = (
    *("Ascend910B", "Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910B3", "Ascend910B4"),
    *("Ascend910B4-1", "Ascend910_93", "Atlas A2", "Atlas A3", "Atlas 800I A2"),
)
PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="ascend910b",
            products="Atlas A2 training, 800I A2 inference",
            aliases=_ATLAS_A2,
            hf32_mantissa_bits=11,
            unverified=("overflow of FLOAT16", "ties of HF32"),
        ),
        Profile(
            name="ascend910",
            products="Atlas training",
            aliases=("Ascend910", "Ascend910A", "Ascend910ProA", "Ascend910ProB", "Atlas training"),
            saturates=True,
            unverified=("overflow of FLOAT16",),
        ),
        Profile(
            name="ascend310p",
            products="Atlas inference",
            aliases=("Ascend310P", "Ascend310P1", "Ascend310P3", "Atlas inference"),
            saturates=True,
            unverified=("overflow of FLOAT16",),
        ),
        Profile(
            name="ascend310b",
            products="Atlas 200/500 A2 inference",
            aliases=("Ascend310B", "Ascend310B1", "Ascend310B4", "Atlas 200/500 A2 inference"),
            saturates=True,
            unverified=("overflow of FLOAT16",),
        ),
        Profile(
            name="ascend310",
            products="Atlas 200/300/500 inference",
            aliases=("Ascend310", "Atlas 200/300/500 inference"),
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
            products="none: the arbiter, in float64",
            hf32_mantissa_bits=11,
            cores=8,
            exact=True,
        ),
    )
}
DEFAULT_PROFILE = "ascend910b"
_KNOWN_IN_PART = ("ascend950", "ascend910_95", "atlas a5")


def profile_named(name: str) -> Profile:
    """The profile of a name or of one of the vendor's spellings, in upper or lower case.

    Raises:
        InvalidArgument: 107001, there is none; Ascend950's rules are known only in part.
    """
    spelling = name.casefold()
    if spelling in _BY_SPELLING:
        return _BY_SPELLING[spelling]
    allowed = ", ".join(PROFILES)
    given = f"{name}, whose rules are known only in part" if _in_part(spelling) else name
    raise InvalidArgument(
        Status.ACL_ERROR_RT_INVALID_DEVICEID,
        f"profile: given {given}, allowed {allowed}",
        parameter="profile",
        given=given,
        allowed=allowed,
    )


def _in_part(spelling: str) -> bool:
    return spelling.startswith(_KNOWN_IN_PART)


_BY_SPELLING = {
    spelling.casefold(): profile
    for profile in PROFILES.values()
    for spelling in (profile.name, *profile.aliases)
}
