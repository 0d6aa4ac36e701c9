"""The machine of a benchmark, in words."""

import os
from pathlib import Path


def processor() -> str:
    """Returns the name of the processor by the Linux kernel."""
    described = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line for line in described if line.startswith("model name")), "processor: ?")
    return model.partition(":")[2].strip()


def machine() -> str:
    """Returns the processor, its cores, and the load of the last minute."""
    cores = len(os.sched_getaffinity(0))
    return f"{processor()}, {cores} cores, load {os.getloadavg()[0]:.1f}"
