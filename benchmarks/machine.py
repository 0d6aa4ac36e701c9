"""The machine of a benchmark, in words."""

import os
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any


class Family(StrEnum):
    """Families of processors with goals of their own."""

    INTEL = "Intel"
    ZEN_4 = "Zen 4"
    OTHER = "other"


def processor() -> str:
    """Returns the name of the processor by the Linux kernel."""
    return _described("model name")


def core() -> str:
    """Returns the name of the processor's cores by the compiler: "znver4"."""
    binding: Any = import_module("llvmlite.binding")  # without types
    return str(binding.get_host_cpu_name())


def family() -> Family:
    """Returns the family of the processor."""
    if _described("vendor_id") == "GenuineIntel":
        return Family.INTEL
    return Family.ZEN_4 if core() == "znver4" else Family.OTHER


def machine() -> str:
    """Returns the processor, its cores, and the load of the last minute."""
    cores = len(os.sched_getaffinity(0))
    return f"{processor()}, {cores} cores, load {os.getloadavg()[0]:.1f}"


def _described(field: str) -> str:
    """Returns a field of the first processor by the Linux kernel."""
    described = Path("/proc/cpuinfo").read_text().splitlines()
    found = next((line for line in described if line.startswith(field)), f"{field}: ?")
    return found.partition(":")[2].strip()
