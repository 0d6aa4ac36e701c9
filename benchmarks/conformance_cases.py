"""Cost of conformance cases: on one device and on two, and the share of expected values."""

import json
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.measure import seconds_of
from benchmarks.report import Goal
from opserve_client.conform.options import Execution
from opserve_client.conform.record import Header
from opserve_client.conform.run import run_cases
from opserve_client.conform.selection import digest_of, suite_named
from opserve_client.conform.service import REFERENCE, contracts_of
from opserve_client.conform.targets.named import SERVICE_UNDER_TEST, Access
from opserve_client.conform.trial import at_once
from opserve_client.conform.workers import Setup, Workers, make_trial
from opserve_client.private_service import private_service
from opserve_kernels.cases.arrays import inputs_in, memory_of
from opserve_kernels.cases.case import Case
from opserve_kernels.conformance.expected import expected_values
from opserve_kernels.conformance.target import Ran
from opserve_kernels.conformance.trial import settled
from opserve_kernels.verdict.judge_case import sized_outputs

_PROFILE = "ascend910b"
_STEP = 2  # every second case: a fraction of `standard` is enough for its rate
_ROUNDS = 3
_CACHE = "XDG_CACHE_HOME"  # a new folder for each measurement: cached expected values cost nothing


def case_goals() -> Sequence[Goal]:
    """Returns the goals for cases per second of `standard` and the cost of expected values."""
    suite = suite_named("standard", 0)
    offered = [case for case in suite.cases if case.profile == _PROFILE and not case.is_refused]
    cases = offered[::_STEP]
    rounds = [[_rate(cases, devices=count) for count in (1, 2)] for _ in range(_ROUNDS)]
    expected, kernels = _costs(cases)
    whole_s = _whole(suite.cases)
    return [
        Goal(
            goal="standard: seconds of opserve's kernels, with an empty cache",
            value=whole_s,
            target=90,
            better="lower",
        ),
        Goal(
            goal="standard: cases per second on one device",
            value=median(one for one, _ in rounds),
            target=15,
            better="higher",
        ),
        Goal(
            goal="standard: growth with two devices",
            value=median(two / one for one, two in rounds),
            target=1.4,
            better="higher",
        ),
        Goal(
            goal="expected values: their cost over that of the tested kernels",
            value=expected / kernels,
            target=4,
            better="lower",
        ),
    ]


def _whole(cases: Sequence[Case]) -> float:
    """Returns the seconds of a run as on the command line, without the start of the service."""
    profiles = sorted({case.profile for case in cases} - {REFERENCE})
    with _begun(cases, [REFERENCE, *profiles]) as setup:
        return _run_seconds(cases, setup, jobs=Execution().jobs)


def _run_seconds(cases: Sequence[Case], setup: Setup, *, jobs: int) -> float:
    def run() -> None:
        with Workers(count=jobs) as workers:
            run_cases(
                cases, setup, workers=workers, folder=None, resume=False, on_result=lambda _: None
            )

    return seconds_of(run)


def _rate(cases: Sequence[Case], *, devices: int) -> float:
    """Returns the cases per second with a process for each device, including process starts."""
    with _begun(cases, [REFERENCE, _PROFILE] * devices) as setup:
        return len(cases) / _run_seconds(cases, setup, jobs=devices)


def _costs(cases: Sequence[Case]) -> tuple[float, float]:
    """Returns the seconds of all expected values and of all calls of the target."""
    expected = kernels = 0.0
    with _begun(cases, [REFERENCE, _PROFILE]) as setup:
        trial = make_trial(setup)
        for case in cases:
            memory = memory_of(case, 0)
            find = partial(
                expected_values, inputs=partial(inputs_in, case, memory), sized=sized_outputs(case)
            )
            started = perf_counter()
            at_once(settled(trial.backend, trial.task(case), find))
            expected += perf_counter() - started
            outcome = at_once(trial.target.run(case, memory, read=memory))
            kernels += outcome.seconds if isinstance(outcome, Ran) else 0.0
        trial.close()
    return expected, kernels


@contextmanager
def _begun(cases: Sequence[Case], devices: Sequence[str]) -> Generator[Setup]:
    """Starts a private service with devices of these profiles, and an empty cache."""
    kept = os.environ.get(_CACHE)
    names = json.dumps(devices)
    with TemporaryDirectory() as folder, private_service(devices=names) as addresses:
        os.environ[_CACHE] = str(Path(folder))
        access = Access(address=addresses.grpc)
        try:
            yield Setup(header=_header(cases, access), access=access, timeout_s=60.0)
        finally:
            os.environ.pop(_CACHE)
            os.environ.update({} if kept is None else {_CACHE: kept})


def _header(cases: Sequence[Case], access: Access) -> Header:
    return Header(
        tool=version("opserve"),
        suite="standard",
        digest="",
        cases=len(cases),
        chosen=digest_of(cases),
        seed=0,
        target=SERVICE_UNDER_TEST,
        contracts=contracts_of(access),
    )
