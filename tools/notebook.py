"""Runs the code of a notebook in order, on a private service."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from opserve_client.access import ADDRESS_VARIABLE
from opserve_client.private_service import private_service


def main() -> None:
    """Runs the notebook that is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    path = parser.parse_args().notebook
    with private_service(devices='["ascend910b", "reference"]') as addresses:
        os.environ[ADDRESS_VARIABLE] = addresses.grpc
        run(path)


def run(path: Path) -> None:
    """Runs each cell in the names of those before it; the first error ends it."""
    names: dict[str, Any] = {}
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] == "code":
            code = compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec")
            exec(code, names)  # noqa: S102  # of this repository


if __name__ == "__main__":
    main()
