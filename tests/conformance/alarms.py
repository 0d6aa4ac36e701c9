"""False alarms: kernels that are right, over many seeds of `standard`.

    PYTHONPATH=tests python -m conformance.alarms --seeds 20

PyTorch's and ONNX Runtime's in FLOAT and BF16; our own on every profile.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator

from conformance.judging import Goldens, Memory
from conformance.survey import PRODUCTS_LIMIT
from kernels.cases.runs import golden_of, run, verdicts
from opserve_client.conform.targets import onnx_runtime, torch_cpu
from opserve_client.conform.targets.function import FunctionTarget
from opserve_client.conform.targets.target import Broken, Missing
from opserve_kernels.cases.arrays import arrays_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.suites import SUITES
from opserve_kernels.cases.sums import multiply_adds
from opserve_kernels.tensor import DataType
from opserve_kernels.verdict.verdict import Status

_TARGETS = {
    "torch": FunctionTarget(torch_cpu.kernels),
    "onnxruntime": FunctionTarget(onnx_runtime.kernels),
}
_JUDGED_DTYPES = (DataType.FLOAT, DataType.BF16)  # PyTorch adds partial sums of FLOAT16 in it
_PROFILE = "ascend910b"  # sums in float32 and rounds once, as these do


def main() -> int:
    """Tells every alarm, and how much was judged; returns the exit status."""
    parser = argparse.ArgumentParser(description="False alarms")
    parser.add_argument("--seeds", type=int, default=20, help="seeds, from 0 on")
    seeds = parser.parse_args().seeds
    counts: Counter[str] = Counter()
    for seed in range(seeds):
        for case in _cases(seed):
            golden = golden_of(case, seed)
            for name, alarm in (*_of_ours(case, seed, golden), *_of_others(case, seed, golden)):
                counts[name] += 1
                counts[f"{name}, false alarms"] += bool(alarm)
                if alarm:
                    sys.stdout.write(f"{name} seed {seed} {case.id} {case.tags}: {alarm}\n")
        sys.stdout.write(f"seed {seed}: {dict(counts)}\n")
        sys.stdout.flush()
    return 1 if any(counts[name] for name in counts if name.endswith("alarms")) else 0


def _cases(seed: int) -> list[Case]:
    return [
        case
        for case in SUITES["standard"](seed).cases
        if not case.is_refused and multiply_adds(case) <= PRODUCTS_LIMIT
    ]


def _of_ours(case: Case, seed: int, golden: Goldens) -> Iterator[tuple[str, str]]:
    memory = dict(arrays_of(case, seed))
    run(case, memory)
    yield case.profile, _alarm(case, golden, memory)


def _of_others(case: Case, seed: int, golden: Goldens) -> Iterator[tuple[str, str]]:
    first = next(iter(case.inputs.values()))
    if case.profile != _PROFILE or first.dtype not in _JUDGED_DTYPES:
        return
    for name, target in _TARGETS.items():
        memory = arrays_of(case, seed)
        outcome = target.run(case, memory)
        if isinstance(outcome, Broken):
            yield name, outcome.reason
        elif not isinstance(outcome, Missing):
            yield name, _alarm(case, golden, memory)


def _alarm(case: Case, golden: Goldens, memory: Memory) -> str:
    """What is said of outputs that are not accepted."""
    found = verdicts(case, {n: memory[n].elements for n in case.written}, golden)
    return "; ".join(one.reason for one in found if one.status is not Status.PASSED)


if __name__ == "__main__":
    sys.exit(main())
