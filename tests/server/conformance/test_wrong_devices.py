"""Verdicts of suites on devices with defects, one defect per operator."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kernels.cases.suites import smoke
from opserve_kernels.cases.case import Case
from opserve_kernels.registry import kernels_of
from opserve_kernels.verdict.json_form import from_json
from opserve_kernels.verdict.verdict import Verdict
from opserve_server.conformance.answers import OneRun, ResultPage, RunInfo, RunPage
from opserve_server.conformance.calls import GetRun, ListResults, ListRuns, RunSuite
from opserve_server.conformance.conformance import Conformance
from opserve_server.conformance.workers import ConformanceWorkers
from opserve_server.core.service import Service
from opserve_server.pool.device import Device
from opserve_server.pool.process import preload
from opserve_server.store.store import open_store
from server.conformance_service import LIMITS, conformance_of
from server.core.fakes import LIMITS as CORE_LIMITS
from server.store.migrated import migrated_file

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("at_work")]
PROFILE = "ascend910b"
WRONG = {
    "im2col_backward": "server.conformance.wrong.element",
    "conv2d_backprop_input": "server.conformance.wrong.flicker",
    "conv2d_backprop_filter": "server.conformance.wrong.deadly",
}
CASES = [case for case in smoke(0).cases if case.profile == PROFILE and not case.is_refused]
ELEMENTS = 20_000


def plain(operator: str) -> Case:
    """Its first case, of contiguous outputs."""
    return next(case for case in CASES if case.operator == operator)


def device_of(profile: str, wrong: Mapping[str, str]) -> Device:
    return Device(
        name=f"{profile}-0",
        profile=profile,
        memory_bytes=1 << 24,
        slab_bytes=1 << 20,
        start_timeout_s=50,
        call_time_limit_s=50,
        silence_limit_s=50,
        threads=1,
        kernels={**kernels_of(profile), **wrong},
    )


@dataclass(frozen=True)
class Bench:
    """The conformance calls of a service with a wrong device and a right reference device."""

    conformance: Conformance

    async def ended(self, target: str, match: str, repeats: int = 1) -> RunInfo:
        """A run on cases that are like something, at its end."""
        asked = RunSuite(suite="smoke", target=target, match=match, repeats=repeats)
        begun = await self.conformance.run(asked)
        assert isinstance(begun, OneRun)
        found = await self.conformance.run(GetRun(run=begun.run.id, wait_s=50))
        assert isinstance(found, OneRun)
        return found.run

    async def results(self, run: RunInfo, status: str = "") -> ResultPage:
        page = await self.conformance.run(ListResults(run=run.id, status=status))
        assert isinstance(page, ResultPage)
        return page


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[Bench]:
    devices = [device_of(PROFILE, WRONG), device_of("reference", {})]
    limits = replace(LIMITS, elements=ELEMENTS, expected_values_folder=tmp_path / "expected-values")
    preload(kernels_of(PROFILE).values())  # other tests share the fork server
    async with AsyncExitStack() as stack:
        for device in devices:
            stack.push_async_callback(device.stop)
        await asyncio.gather(*(device.start() for device in devices))
        service = Service(devices, limits=CORE_LIMITS)
        stack.push_async_callback(service.stop)
        opened = open_store(migrated_file(tmp_path), timeout_s=20, connections_limit=4)
        store = await stack.enter_async_context(opened)
        workers = ConformanceWorkers(1)
        stack.push_async_callback(workers.close)
        yield Bench(conformance_of(service, workers, store.runs, limits))


def counts(run: RunInfo) -> dict[str, int]:
    return {count.status: count.cases for count in run.counts}


def verdict_of(text: str) -> Verdict:
    return from_json(json.loads(text))


async def test_an_element_that_is_wrong_fails(bench: Bench) -> None:
    case = plain("im2col_backward")
    run = await bench.ended("wrong", case.id)
    assert (run.state, run.digest, counts(run)) == ("ENDED", smoke(0).digest, {"FAILED": 1})
    (result,) = (await bench.results(run, "FAILED")).results
    size = case.tensors["out"].storage_elements
    assert f"out: 1 of {size} elements are wrong, the first at (0, 0, 0, 0)" in result.reason
    (output,) = verdict_of(result.verdict).outputs
    assert (output.errors, output.first[0].got) == (1, 12345)


async def test_bits_that_differ_between_equal_calls_are_found_where_calls_repeat(
    bench: Bench,
) -> None:
    case = plain("conv2d_backprop_input")
    run = await bench.ended("flickers", case.id, repeats=5)
    assert (run.repeats, counts(run)) == (5, {"NONDETERMINISTIC": 1})
    (result,) = (await bench.results(run)).results
    size = case.tensors["res_tensor"].storage_elements
    assert f"res_tensor: 1 of {size} elements differ in 2 equal calls" in result.reason
    (repeats,) = (one for one in verdict_of(result.verdict).checks if one.name == "repeats")
    assert repeats.first == ((0, 0, 0, 0, 0),)
    once = await bench.ended("flickers", case.id)
    assert counts(once) == {"PASSED": 1}, "the third call is right"


async def test_cases_that_kill_their_workers_are_errors_and_the_next_ones_run(
    bench: Bench,
) -> None:
    run = await bench.ended("deadly", "plain")
    assert run.state == "ENDED"
    killed = (await bench.results(run, "ERROR")).results
    assert plain("conv2d_backprop_filter").id in [one.case for one in killed]
    for result in killed:
        assert result.case.startswith("conv2d_backprop_filter.")
        assert "2 workers died under it" in result.reason
    assert counts(run)["PASSED"] > 0, "convolution_backward is right"


async def test_the_history_of_a_target_reports_the_outcome_of_each_run(bench: Bench) -> None:
    large = next(
        case for case in CASES if max(t.storage_elements for t in case.tensors.values()) > ELEMENTS
    )
    elsewhere = next(case for case in smoke(0).cases if case.profile == "ft78ne")
    failed = await bench.ended("mine", plain("im2col_backward").id)
    nowhere = await bench.ended("others", elsewhere.id)
    skipped = await bench.ended("mine", large.id)
    for target, runs in (("mine", [skipped, failed]), ("", [skipped, nowhere, failed])):
        page = await bench.conformance.run(ListRuns(target=target))
        assert isinstance(page, RunPage)
        assert list(page.runs) == runs
    found = [counts(run) for run in (skipped, nowhere, failed)]
    assert found == [{"SKIPPED": 1}, {"UNIMPLEMENTED": 1}, {"FAILED": 1}]
    (result,) = (await bench.results(skipped)).results
    assert f"elements of a tensor, and {ELEMENTS} are the limit" in result.reason
