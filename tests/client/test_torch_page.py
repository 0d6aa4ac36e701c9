"""The examples of docs/how-to/torch.md, and the notebook docs/how-to/torch.ipynb."""

import contextlib
import io
from importlib import import_module
from typing import Any

import pytest

from opserve_client.access import ADDRESS_VARIABLE
from opserve_client.private_service import Addresses
from test_examples import ROOT, blocks, on
from tools.notebook import run

PAGE = "docs/how-to/torch.md"
pytestmark = [
    pytest.mark.system,
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::opserve_client.DocumentedRuleWarning"),
]


def test_the_examples_run(service: Addresses) -> None:
    torch: Any = import_module("torch")
    torch.manual_seed(7)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for example in blocks(PAGE, "python"):
            exec(compile(on(service, example), PAGE, "exec"), {})  # noqa: S102  # our own page
    (line,) = printed.getvalue().splitlines()
    assert f"It prints `{line}`." in (ROOT / PAGE).read_text()


def test_the_notebook_runs(service: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS_VARIABLE, service.grpc)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run(ROOT / "docs/how-to/torch.ipynb")
    assert "test accuracy" in printed.getvalue()
