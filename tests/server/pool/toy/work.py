"""Takes a millisecond a unit and adds one to byte `unit` of the first tensor, round and round."""

import time
from typing import Any


def run(_: Any, tensors: Any, __: Any, first: int, last: int) -> None:
    for unit in range(first, last):
        time.sleep(0.001)
        tensors[0][unit % len(tensors[0])] += 1
