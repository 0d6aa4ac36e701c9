"""False alarms: kernels that are right, over many seeds of `standard`.

    PYTHONPATH=tests python -m conformance.alarms --seeds 20

PyTorch's and ONNX Runtime's in FLOAT and BF16; our own on every profile.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from time import perf_counter

from conformance.judging import Attempt, Memory, copied, findings, memory_of, verdict_of
from conformance.survey import cases_of_seed
from kernels.cases.runs import expected_of, run
from opserve_client.conform.targets import onnx_runtime, torch_cpu
from opserve_client.conform.targets.function import Called
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.target import Broken, Ran
from opserve_kernels.tensor import DataType

_TARGETS = {
    "torch": Called(torch_cpu.kernels),
    "onnxruntime": Called(onnx_runtime.kernels),
}
_JUDGED_DTYPES = (DataType.FLOAT, DataType.BF16)  # PyTorch adds partial sums of FLOAT16 in it
Counts = Counter[str]


def main() -> int:
    """Prints every alarm and the number of judged results; returns the exit status."""
    parser = argparse.ArgumentParser(description="False alarms")
    parser.add_argument("--seeds", type=int, default=20, help="seeds, from 0 on")
    seeds: int = parser.parse_args().seeds
    judged, alarms = Counts(), list[str]()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for counts, messages, seconds in pool.map(_of_seed, range(seeds), repeat(seeds)):
            judged += counts
            alarms += messages
            sys.stdout.write("".join(f"{line}\n" for line in messages))
            sys.stdout.write(f"{counts.total()} results in {seconds:.0f} s: {dict(counts)}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{seeds} seeds, {len(alarms)} false alarms: {dict(judged)}\n")
    return 1 if alarms else 0


def _of_seed(seed: int, seeds: int) -> tuple[Counts, list[str], float]:
    """Results by kernel, alarms, and the seconds it took."""
    counts, messages, started = Counts(), list[str](), perf_counter()
    for case in cases_of_seed(seed, seeds):
        for name, alarm in _results(case, seed):
            counts[name] += 1
            if alarm:
                messages.append(f"{name} seed {seed} {case.id} {case.tags}: {alarm}")
    return counts, messages, perf_counter() - started


def _results(case: Case, seed: int) -> Iterator[tuple[str, str]]:
    """Each kernel that has the case, and its verdict unless it passed."""
    expected, before = expected_of(case, seed), memory_of(case, seed)

    def alarm(memory: Memory) -> str:
        verdict = verdict_of(case, expected, Attempt(before=before, after=[memory]))
        return verdict.reason if findings(verdict) else ""

    ours = copied(case, before)
    run(case, ours)
    yield case.profile, alarm(ours)
    if next(iter(case.inputs.values())).dtype in _JUDGED_DTYPES:
        for name, target in _TARGETS.items():
            theirs = copied(case, before)
            outcome = target.run(case, theirs)
            if isinstance(outcome, Broken):
                yield name, outcome.reason
            elif isinstance(outcome, Ran):
                yield name, alarm(theirs)


if __name__ == "__main__":
    sys.exit(main())
