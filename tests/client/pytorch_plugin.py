"""A plugin of pytest for PyTorch's test_convolution.py: its calls go to a service, and are counted.

Ascend's copy of the file needs an NPU and a list of its devices, of which there are none here, and
lacks an import.
"""

import builtins
import json
import os
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from opserve_client import Client
from opserve_client.torch import Offload, offload

COUNTS = "OPSERVE_COUNTS"
"""Variable with the path of a file that gets a line of JSON for each test."""
_stack = ExitStack()
_counted: list[Offload] = []


def pytest_configure() -> None:
    npu = SimpleNamespace(get_device_name=_nothing, is_available=_nothing)
    torch = import_module("torch")
    vars(torch)["npu"] = npu
    setattr(builtins, "make_tensor", torch.testing.make_tensor)  # noqa: B010  it has no such name
    stubs: dict[str, dict[str, object]] = {
        "torch_npu": {"npu": npu},
        "torch_npu.testing": {},
        "torch_npu.testing.common_utils": {"SupportedDevices": _unchanged},
        "url": {"get_url": _nothing},
    }
    for name, members in stubs.items():
        sys.modules[name] = module = ModuleType(name)
        vars(module).update(members)


def _nothing(*_: object) -> str:
    return ""


def _unchanged(_: object) -> Callable[[object], object]:
    return lambda test: test


def pytest_sessionstart() -> None:
    _counted.append(_stack.enter_context(offload(_stack.enter_context(Client()))))


def pytest_sessionfinish() -> None:
    _stack.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    (counts,) = _counted
    counts.offloaded.clear()
    counts.not_offloaded.clear()
    outcome = "failed"
    try:
        yield
        outcome = "passed"
    except pytest.skip.Exception:
        outcome = "skipped"
        raise
    finally:
        line = {"test": item.name, "outcome": outcome}
        found = {**line, "offloaded": counts.offloaded, "not_offloaded": counts.not_offloaded}
        with Path(os.environ[COUNTS]).open("a") as file:
            file.write(json.dumps(found) + "\n")
