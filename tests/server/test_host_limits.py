"""Settings beside what a container allows."""

import logging

import pytest

from opserve_server import host_limits
from opserve_server.host_limits import within_host_limits
from opserve_server.settings import SettingRefused, Settings

GIB = 2**30


@pytest.fixture(autouse=True)
def two_cpus_and_2_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_limits, "cpu_count", lambda: 2)
    monkeypatch.setattr(host_limits, "memory_limit_bytes", lambda: 2 * GIB)


def settings(**chosen: object) -> Settings:
    return Settings.model_validate({"devices": ["ascend910b"], **chosen})


def test_threads_and_processes_are_no_more_than_the_processors(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = within_host_limits(settings(device_threads=8, conformance_processes=3))
    assert (found.device_threads, found.conformance_processes) == (2, 2)
    assert "device_threads: given 8, lowered to the 2 available processors" in caplog.text
    few = within_host_limits(settings(device_threads=1, conformance_processes=2))
    assert (few.device_threads, few.conformance_processes) == (1, 2)


def test_a_device_with_more_memory_than_the_container_is_a_start_error() -> None:
    with pytest.raises(SettingRefused) as raised:
        within_host_limits(settings(device_memory_bytes=2 * GIB + 1))
    assert str(raised.value) == (
        f"device_memory_bytes is {2 * GIB + 1}, above the memory limit of the container, "
        f"{2 * GIB}: lower it by OPSERVE_DEVICE_MEMORY_BYTES or --device-memory-bytes."
    )


def test_devices_that_have_more_memory_together_are_a_warning_with_both_numbers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        within_host_limits(settings(devices=["ascend910b", "reference"], device_memory_bytes=GIB))
    assert caplog.text == ""
    devices = ["ascend910b", "ascend910", "reference"]
    with caplog.at_level(logging.WARNING):
        within_host_limits(settings(devices=devices, device_memory_bytes=GIB))
    (line,) = caplog.messages
    assert f"need {3 * GIB}, and the container allows {2 * GIB}" in line
    assert "OPSERVE_DEVICE_MEMORY_BYTES" in line
