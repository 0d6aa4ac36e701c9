"""The C library where things end: forks, exits, threads, a service that is gone."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import pytest

from abi.acl import SUCCESS, Acl, Unfold
from abi.fake_service import fake_service
from abi.programs import compiled, run
from opserve_client import Client
from opserve_client.abi.build import build
from opserve_client.private_service import Addresses

INVALID_PARAM, CONTEXT_NULL, NO_DEVICE, SOCKET_CLOSE = 100000, 107002, 207004, 507901
THREADS_PROGRAM = Path(__file__).parent / "cpp/threads.cpp"
TESTS = Path(__file__).parents[1]
SANITIZERS = {
    "thread": ("-fsanitize=thread", {"TSAN_OPTIONS": "exitcode=66"}),
    "address": ("-fsanitize=address,undefined", {"ASAN_OPTIONS": "exitcode=66"}),
}
BEGIN = """
import os, sys
from ctypes import byref, c_uint64, c_void_p
from pathlib import Path
from abi.acl import Acl, Unfold
acl = Acl(Path(sys.argv[1]))
acl.done("aclInit", None)
acl.done("aclrtSetDevice", 0)
"""


def script(
    text: str, library: Path, address: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Runs a script that has begun with `acl`, on device 0."""
    settings = {"OPSERVE_ADDRESS": address, "PYTHONPATH": f"{TESTS}", **environment}
    return subprocess.run(
        [sys.executable, "-c", BEGIN + text, str(library)],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def sessions(address: str) -> int:
    with Client(address) as client:
        return sum(device.sessions for device in client.list_devices())


def test_threads_share_a_stream(acl: Acl) -> None:
    stream = acl.stream()

    def calls(_: int) -> None:
        acl.done("aclrtSetDevice", 0)
        for _ in range(3):
            np.testing.assert_array_equal(Unfold(acl).result(stream), Unfold.expected())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(calls, range(8)))


def test_thread_without_a_context_may_use_a_stream_and_memory_but_make_none(acl: Acl) -> None:
    call, stream = Unfold(acl), acl.stream()

    def codes() -> list[int]:
        made = [acl.aclrtCreateStream(byref(c_void_p())), call.plan()]
        return [*made, acl.aclrtSynchronizeStream(stream), acl.aclrtFree(c_void_p(call.source))]

    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(codes).result()
    assert found == [CONTEXT_NULL, CONTEXT_NULL, SUCCESS, SUCCESS]


def test_forked_child_begins_anew_and_its_parent_goes_on(library: Path, service: Addresses) -> None:
    done = script(
        """
address = acl.malloc(64)
if os.fork() == 0:
    codes = [acl.aclrtMalloc(byref(c_void_p()), c_uint64(1), 0), acl.aclrtFree(c_void_p(address))]
    codes += [acl.aclrtSynchronizeStream(None), acl.aclFinalize()]
    acl.done("aclInit", None)
    codes += [acl.aclrtFree(c_void_p(address)), acl.aclrtCreateStream(byref(c_void_p()))]
    acl.done("aclrtSetDevice", 0)
    same = (Unfold(acl).result() == Unfold.expected()).all()
    acl.done("aclFinalize")
    os._exit(0 if (codes, same) == ([107002] * 4 + [107000, 107002], True) else 1)
status = os.wait()[1]
assert (Unfold(acl).result() == Unfold.expected()).all()
acl.done("aclrtFree", c_void_p(address))
print(status)
""",
        library,
        service.rest,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("0\n", "", 0)


def test_exit_without_reset_closes_the_session(library: Path, service: Addresses) -> None:
    before = sessions(service.rest)
    done = script("print(acl.malloc(64) > 0)", library, service.rest)
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)
    assert sessions(service.rest) == before


def test_service_gone_between_the_phases_is_a_code(
    idle: Acl, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_service() as service:
        monkeypatch.setenv("OPSERVE_ADDRESS", service.address)
        idle.done("aclInit", None)
        idle.done("aclrtSetDevice", 0)
        arguments = (idle.tensor((1, 3, 4), None), *(idle.ints(1, 1) for _ in range(4)))
        size, executor = c_uint64(), c_void_p()
        output = idle.tensor((1, 12), None)
        idle.done("aclnnIm2colGetWorkspaceSize", *arguments, output, byref(size), byref(executor))
    assert idle.aclnnIm2col(None, c_uint64(0), executor, None) == SOCKET_CLOSE
    assert "no service answers" in idle.message()
    assert idle.aclrtSynchronizeStream(None) == SOCKET_CLOSE
    assert idle.aclrtMalloc(byref(c_void_p()), c_uint64(1), 0) == SOCKET_CLOSE
    assert idle.aclrtResetDevice(0) == SOCKET_CLOSE
    assert idle.aclFinalize() == SUCCESS


def test_memory_of_a_device_that_the_service_does_not_list_is_a_code(
    idle: Acl, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_service() as service:
        monkeypatch.setenv("OPSERVE_ADDRESS", service.address)
        idle.done("aclInit", None)
        idle.done("aclrtSetDevice", 0)
        free, total = c_uint64(), c_uint64()
        assert idle.aclrtGetMemInfo(1, byref(free), byref(total)) == NO_DEVICE
        assert idle.aclrtGetMemInfo(1, None, byref(total)) == INVALID_PARAM
    idle.aclFinalize()


def test_service_that_does_not_answer_delays_no_exit(library: Path) -> None:
    with fake_service() as service:
        done = script("print('end')", library, service.address)
    assert (done.stdout, done.stderr, done.returncode) == ("end\n", "", 0)


def test_heartbeat_renews_the_lease_of_an_idle_program(
    idle: Acl, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_service() as service:
        monkeypatch.setenv("OPSERVE_ADDRESS", service.address)
        idle.done("aclInit", None)
        idle.done("aclrtSetDevice", 0)
        for _ in range(3):
            assert service.kept_alive.acquire(timeout=60)
    assert idle.aclFinalize() == SOCKET_CLOSE


def test_program_of_eight_threads_is_right_and_ends_without_reset(
    library: Path, service: Addresses, tmp_path: Path
) -> None:
    done = run(compiled(THREADS_PROGRAM, library, tmp_path), library, service.rest)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_sanitizers_find_nothing_in_eight_threads(
    sanitizer: str, service: Addresses, tmp_path: Path
) -> None:
    flag, options = SANITIZERS[sanitizer]
    build(tmp_path / "abi", compiler="g++", flags=(flag, "-g", "-O1"))
    program = compiled(THREADS_PROGRAM, tmp_path / "abi", tmp_path, flag)
    done = run(program, tmp_path / "abi", service.rest, **options)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
