"""Every example of the documentation runs against a real service; curl's where it is there."""

import base64
import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.service_with_keys import empty_store
from opserve_client.private_service import Addresses, private_service
from skips import needs_program
from tools.translations import CHINESE

pytestmark = pytest.mark.system
ROOT = Path(__file__).parents[1]
ELSEWHERE = {
    "docs/how-to/administration.md": "tests/system/test_administration.py",
    "docs/how-to/ci-identity.md": "tests/system/test_ci_identity_page.py",
    "docs/how-to/containers.md": "tests/containers/test_compose.py",
    "docs/how-to/conformance.md": "tests/client/conform/test_guide.py",
    "docs/how-to/cpp-programs.md": "tests/abi/test_programs.py",
    "docs/how-to/five-teams.md": "tests/system/test_five_teams_page.py",
    "docs/how-to/operating.md": "tests/system/test_operating_page.py",
    "docs/how-to/torch.md": "tests/client/test_torch_page.py",
    "docs/how-to/triton.md": "tests/system/test_triton_client.py",
    "docs/tutorial/first-verdict.md": "tests/client/conform/test_guide.py",
}
"""Pages whose examples other tests run."""
STARTS = {"docs/how-to/farm.md", "docs/how-to/from-a-laptop.md", "docs/reference/settings.md"}
"""Pages whose commands only start a service."""
SHELL_PAGES = {
    "README.md",
    "docs/how-to/conformance-service.md",
    "docs/how-to/connect.md",
    "docs/how-to/rest.md",
    "docs/tutorial/first-call.md",
}
IMAGE = [[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]
PRINTED = {
    "README.md": ["(2, 4, 7, 7) (8, 4, 3, 3) (8,)"],
    "docs/tutorial/first-call.md": [
        "[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]",
        "161002 ACLNN_ERR_PARAM_INVALID stride",
    ],
    "docs/how-to/observing.md": [
        *("not ready: []", "overloaded: []"),
        "1 im2col_backward True",
        "['im2col_backward', 'write', 'read']",
        "5 True True 5",
    ],
    "docs/explanation/verdicts.md": [
        "FAILED 1 (2, 3)",
        "['rounding', 'cann-ecosystem']",
        "True",
    ],
    "docs/reference/conformance-report.md": ["<!doctype html> False"],
    "docs/how-to/conformance-service.md": [
        *("PASSED", "FAILED"),
        "['grad_output', 'input', 'weight']",
        "grad_input: nothing was given instead of bfloat16 of shape (1, 8, 6, 6)",
    ],
    "docs/how-to/devices.md": ["['ascend910b-0'] []"],
    "docs/reference/profiles.md": ["ascend910b", "ascend910b", "ascend910", "ascend310p"],
}
"""Documented output of the Python examples of a page, line by line."""
needs_curl = needs_program("curl", there=shutil.which("curl") is not None, package="curl")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def pages_with(language: str) -> list[str]:
    """The README, the documentation and the operators' pages, if they have such an example.

    Translations have the code of the English pages (tests/test_tidy_docs.py).
    """
    folders = ("*.md", "docs/**/*.md", "kernels/opserve_kernels/operators/*/README.md")
    pages = (str(path.relative_to(ROOT)) for folder in folders for path in ROOT.glob(folder))
    english = (page for page in pages if not page.endswith(CHINESE))
    return sorted(page for page in english if blocks(page, language))


PYTHON_PAGES = [page for page in pages_with("python") if page not in ELSEWHERE]


def on(service: Addresses, text: str) -> str:
    """The example with the addresses of a private service instead of the default ones."""
    port = service.rest.removeprefix("http://")
    return text.replace("127.0.0.1:50051", service.grpc).replace("127.0.0.1:8080", port)


def run_shell(script: str, folder: Path) -> None:
    """Runs a script up to its first failure, wherever in a pipe that is."""
    script = script.replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PYTHON_PAGES)
def test_python_examples_run(service: Addresses, page: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for example in blocks(page, "python"):
            # Each in names of its own: a reader copies one of them, and it must run alone.
            exec(compile(on(service, example), page, "exec"), {})  # noqa: S102  # our own page
    if page in PRINTED:
        assert printed.getvalue().splitlines() == PRINTED[page]


def test_the_commands_of_the_readme_run(service: Addresses, tmp_path: Path) -> None:
    (command,) = (block for block in blocks("README.md", "sh") if "conform" in block)
    run_shell(on(service, command), tmp_path)
    assert (tmp_path / "report.html").exists()


def out_of(path: Path) -> NDArray[Any]:
    with np.load(path) as arrays:
        return cast("NDArray[Any]", arrays["out"])


@pytest.mark.slow
@needs_curl
def test_the_commands_of_the_first_call_run(service: Addresses, tmp_path: Path) -> None:
    _, *examples = blocks("docs/tutorial/first-call.md", "sh")  # the first installs and starts
    run_shell(on(service, "".join(examples)), tmp_path)
    for output in ("out.npz", "cli.npz"):
        assert out_of(tmp_path / output).tolist() == IMAGE


@pytest.mark.slow
@needs_curl
def test_the_curl_examples_of_the_rest_page_run(service: Addresses, tmp_path: Path) -> None:
    run_shell(on(service, "".join(blocks("docs/how-to/rest.md", "sh"))), tmp_path)
    # By hand: each output of ones spreads over 2x2 inputs; each weight sums 2x2 inputs.
    assert np.fromfile(tmp_path / "grad_input.bin", np.float32).reshape(1, 3, 3).tolist() == IMAGE
    assert np.fromfile(tmp_path / "grad_weight.bin", np.float32).tolist() == [8, 12, 20, 24]
    assert out_of(tmp_path / "out.npz").tolist() == IMAGE
    bits = out_of(tmp_path / "bf16.npz")
    assert bits.view(ml_dtypes.bfloat16).astype(np.float32).tolist() == IMAGE


@needs_curl
def test_the_curl_examples_of_the_connect_page_run(service: Addresses, tmp_path: Path) -> None:
    run_shell(on(service, "".join(blocks("docs/how-to/connect.md", "sh"))), tmp_path)
    assert np.fromfile(tmp_path / "out.bin", np.float32).reshape(1, 3, 3).tolist() == IMAGE
    sent = base64.b64encode((tmp_path / "out.bin").read_bytes()).decode()
    assert f'"data":"{sent}"' in (tmp_path / "stream.txt").read_text()


@pytest.mark.slow
@needs_curl
def test_the_curl_examples_of_conformance_run(tmp_path: Path) -> None:
    with private_service(store_url=empty_store(tmp_path), devices='["reference"]') as service:
        run_shell(
            on(service, "".join(blocks("docs/how-to/conformance-service.md", "sh"))), tmp_path
        )
    (output,) = json.loads((tmp_path / "wrong.json").read_text())["verdict"]["outputs"]
    wrong = out_of(tmp_path / "wrong.npz")
    place = np.unravel_index(5, wrong.shape)
    assert output["greatest"][0]["index"] == list(place)
    assert output["greatest"][0]["got"] == wrong[place]


def test_every_page_with_an_example_is_tested() -> None:
    assert set(PYTHON_PAGES) >= set(PRINTED)
    assert set(pages_with("sh")) == SHELL_PAGES | STARTS | set(ELSEWHERE)
    assert [test for page, test in ELSEWHERE.items() if page not in (ROOT / test).read_text()] == []


def test_the_first_example_has_fifteen_lines() -> None:
    example = blocks("README.md", "python")[0]
    assert len(example.strip().splitlines()) <= 15
