"""The vendor's names of a profile are accepted as they are written, and the page lists them."""

import re
from pathlib import Path

import pytest

from opserve_kernels.errors import InvalidArgument
from opserve_kernels.profiles import PROFILES, profile_named
from opserve_kernels.status import Status
from vendor_pages import FOLDER

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/profiles.md"
A2 = ("Atlas A2训练系列产品", "Atlas 800I A2推理产品")
KIND = "(?:训练|推理|Training |Inference )"
PRODUCT = "(?:系列产品|产品|Series Product|Product)"
SPELLINGS = {
    "ascend910b": (
        *(
            "Ascend910B",
            "Ascend910B1",
            "Ascend910B2C",
            "Ascend910B4-1",
            "ASCEND910B3",
            "ascend910b",
        ),
        *("Ascend910_93", "Ascend910_9391", "Atlas A2", "Atlas A2 training", "atlas  a2 Training"),
        *(
            "Atlas 800I A2",
            "Atlas 800I A2 inference",
            "Atlas A3",
            "Atlas A2 Training Series Products",
        ),
        *(*A2, "/".join(A2), "Atlas A2 训练系列产品", " Atlas A2\t"),
    ),
    "ascend910": (
        *("Ascend910", "Ascend910A", "Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA"),
        *(
            "Atlas training",
            "Atlas 训练系列产品",
            "Atlas训练系列产品",
            "Atlas Training Series Product",
        ),
    ),
    "ascend310p": (
        *("Ascend310P", "Ascend310P1", "Ascend310P3", "Ascend310P7", "Atlas inference"),
        *("Atlas 推理系列产品", "Atlas Inference Series Product"),
    ),
    "ascend310b": (
        *("Ascend310B", "Ascend310B1", "Ascend310B4", "Atlas 200/500 A2推理产品"),
        *("Atlas 200/500 A2 Inference Product", "Atlas 200I/500 A2 inference"),
    ),
    "ascend310": ("Ascend310", "Atlas 200/300/500 推理产品", "Atlas 200/300/500 Inference Product"),
    "ft78ne": ("FT78NE", "FT78NE DSP"),
    "mt7004": ("mt7004", "MT7004 DSP"),
    "reference": ("reference", "Reference"),
}


@pytest.mark.parametrize(
    ("spelling", "profile"),
    [(spelling, profile) for profile, names in SPELLINGS.items() for spelling in names],
)
def test_a_profile_has_the_names_of_the_vendor(spelling: str, profile: str) -> None:
    assert profile_named(spelling).name == profile


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_found_by_the_products_it_is_shown_with(name: str) -> None:
    products = PROFILES[name].products
    assert profile_named(products).name == name
    if products.startswith("Atlas"):
        assert {profile_named(product).name for product in products.split(", ")} == {name}


@pytest.mark.parametrize(
    "name", ["", "Ascend", "Ascend31", "Ascend910C", "Ascend310X", "Atlas", "products", "Atlas A"]
)
def test_no_other_name_is_a_profile(name: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        profile_named(name)
    error = refusal.value
    assert error.status is Status.ACL_ERROR_RT_INVALID_DEVICEID
    assert (error.given, error.allowed) == (name, ", ".join(PROFILES))
    assert error.message.startswith(f"profile does not accept {name} (not known")
    assert error.message.endswith(f"); it accepts {error.allowed}.")


@pytest.mark.parametrize("name", ["Ascend950", "ascend950PR_9589", "Ascend 950"])
def test_ascend950_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidArgument, match="whose rules are known only in part") as refusal:
        profile_named(name)
    assert refusal.value.given == name


@pytest.mark.vendor_pages
def test_every_product_of_the_vendors_pages_has_a_profile() -> None:
    pages = "".join(page.read_text() for page in FOLDER.glob("*.txt"))
    products = re.findall(rf"Atlas [A-Z0-9/ ]*{KIND}{PRODUCT}", pages)
    assert {profile_named(product).name for product in products} == {
        *("ascend910b", "ascend910", "ascend310p", "ascend310b", "ascend310")
    }


def test_the_page_lists_every_profile_with_all_its_names() -> None:
    rows = re.findall(r"^\| (`.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [
        " | ".join(
            (
                f"`{profile.name}`",
                profile.products,
                ", ".join(f"`{alias}`" for alias in profile.aliases) or "-",
                ", ".join(profile.unverified) or "-",
            )
        )
        for profile in PROFILES.values()
    ]
