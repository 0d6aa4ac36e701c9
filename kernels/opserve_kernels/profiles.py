"""Virtual devices by name: what a product can do, as data."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A product family that a virtual device stands for.

    Attributes:
        name: The name that a session asks for.
        products: The vendor's product names.
        operators: Snake-case names of the operators it supports.
    """

    name: str
    products: str
    operators: frozenset[str]


PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="ascend910b",
            products="Atlas A2 training, 800I A2 inference",
            operators=frozenset({"convolution_backward", "im2col_backward"}),
        ),
    )
}
DEFAULT_PROFILE = "ascend910b"
