"""A client of a benchmark: makes the calls that each line of JSON names, and returns their times.

Runs in the environments of opserve and of its peers, so it imports the standard library alone.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping

from benchmarks.measure import seconds_each

Call = Callable[[], object]


def drive(calls: Mapping[str, Callable[[], Call]]) -> None:
    """Answers requests until standard input ends.

    {"call": NAME, "times": N} is answered with the seconds of N calls, {"call": NAME, "for_s": S}
    with the number of calls within S seconds.

    Args:
        calls: Prepares each call; runs before its first use.
    """
    prepared: dict[str, Call] = {}
    print("{}", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        name = request["call"]
        if name not in prepared:
            prepared[name] = calls[name]()
        call = prepared[name]
        if "for_s" in request:
            answer: dict[str, object] = {"calls": _calls_within(call, request["for_s"])}
        else:
            answer = {"seconds": seconds_each(call, times=request["times"])}
        print(json.dumps(answer), flush=True)


def _calls_within(call: Call, seconds: float) -> int:
    end_s, calls = time.perf_counter() + seconds, 0
    while time.perf_counter() < end_s:
        call()
        calls += 1
    return calls
