"""Tests of what no installation brings: left out where it is absent, if skips fail too."""

from importlib import import_module
from importlib.util import find_spec

import pytest

import perf_analyzer
import previous_release
import pytorch_tests
import triton_python
import vendor_pages
import vendor_programs


def has_pairs() -> bool:
    """Whether this processor multiplies BF16 values in pairs."""
    return import_module("opserve_kernels.algorithms.host").VARIANT.pairs is True


def has_torch() -> bool:
    return find_spec("torch") is not None


def has_farm() -> bool:
    return find_spec("ray") is not None and find_spec("kubernetes_validate") is not None


def has_onnxruntime() -> bool:
    return find_spec("onnxruntime") is not None


IS_THERE = {
    "vendor_pages": vendor_pages.FOLDER.is_dir,
    "vendor_programs": vendor_programs.FOLDER.is_dir,
    "previous_release": previous_release.is_there,
    "pytorch_tests": pytorch_tests.FILE.is_file,
    "torch": has_torch,
    "farm": has_farm,
    "triton": triton_python.is_there,
    "perf_analyzer": perf_analyzer.is_there,
    "pairs": has_pairs,
    "onnxruntime": has_onnxruntime,
}
"""By the mark of the tests."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for mark, is_there in IS_THERE.items():
        marked = [item for item in items if item.get_closest_marker(mark)]
        if marked and not is_there():
            config.hook.pytest_deselected(items=marked)
            items[:] = [item for item in items if item not in set(marked)]
