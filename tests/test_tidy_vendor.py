"""Files of other projects in the service's pages: unchanged, with their versions and licences."""

from hashlib import sha256
from pathlib import Path

import pytest

from tools.vendor import DASHBOARD, DOCS, PACKAGES, SUMS

DESCRIPTIONS = {DASHBOARD: "VENDORED.md", DOCS: "README.md"}


@pytest.mark.parametrize("folder", DESCRIPTIONS, ids=lambda folder: folder.name)
def test_the_vendored_files_are_those_whose_digests_are_listed(folder: Path) -> None:
    lines = (folder / SUMS).read_text().splitlines()
    listed = {name: digest for digest, name in (line.split() for line in lines)}
    packed = {name for one in PACKAGES if one.folder == folder for name in one.files.values()}
    assert packed == listed.keys()
    assert {name: sha256((folder / name).read_bytes()).hexdigest() for name in listed} == listed


@pytest.mark.parametrize("folder", DESCRIPTIONS, ids=lambda folder: folder.name)
def test_each_package_is_described_with_its_version_and_brings_its_licence(folder: Path) -> None:
    description = (folder / DESCRIPTIONS[folder]).read_text()
    for package in (one for one in PACKAGES if one.folder == folder):
        assert f"`{package.name}` {package.version}" in description
        assert any("LICENSE" in name for name in package.files.values())
