"""Every example of the documentation runs against a real service; curl's where it is there."""

import contextlib
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from opserve_client.private_service import Addresses

pytestmark = pytest.mark.system
ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "docs/two-phases.md",
    "kernels/opserve_kernels/convolution_backward/README.md",
    "kernels/opserve_kernels/im2col_backward/README.md",
]
PRINTED = {
    "README.md": [
        "(2, 4, 7, 7) (8, 4, 3, 3) (8,)",
        "161002 ACLNN_ERR_PARAM_INVALID stride",
    ]
}
"""What the Python examples of a page print, line by line, where the page says so."""


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def on(service: Addresses, text: str) -> str:
    """The example with the addresses of a private service instead of the default ones."""
    port = service.rest.removeprefix("http://")
    return text.replace("127.0.0.1:50051", service.grpc).replace("127.0.0.1:8080", port)


@pytest.mark.parametrize("page", PAGES)
def test_python_examples_run(service: Addresses, page: str) -> None:
    examples = blocks(page, "python")
    assert examples, f"{page} has no example"
    printed = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        for example in examples:
            exec(compile(on(service, example), page, "exec"), names)  # noqa: S102  # our own page
    if page in PRINTED:
        assert printed.getvalue().splitlines() == PRINTED[page]


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_curl_example_runs(service: Addresses, tmp_path: Path) -> None:
    (example,) = (block for block in blocks("README.md", "sh") if "curl" in block)
    script = on(service, example).replace(".venv/bin/python", sys.executable)
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, check=True)  # noqa: S607
    assert np.load(tmp_path / "out.npz")["out"].tolist() == [[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]


def test_the_first_example_has_fifteen_lines() -> None:
    example = blocks("README.md", "python")[0]
    assert len(example.strip().splitlines()) <= 15
