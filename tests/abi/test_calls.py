"""The functions of the C library against a real service."""

from ctypes import POINTER, byref, c_float, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme

from abi.acl import NCHW, SUCCESS, Acl, Unfold
from opserve_client.private_service import private_service

INVALID_PARAM, UNINITIALIZE, REPEAT_INITIALIZE, REPEAT_FINALIZE = 100000, 100001, 100002, 100037
PARAM_INVALID, INVALID_DEVICE, CONTEXT_NULL, STREAM_CONTEXT = 107000, 107001, 107002, 107003
INVALID_HANDLE, OPTION_NOT_SET = 107017, 107021
NULLPTR, INVALID, INNER_NULLPTR = 161001, 161002, 561103
NOT_SUPPORTED = 207000
LARGE = 1 << 20


def test_call_gives_the_columns(acl: Acl) -> None:
    np.testing.assert_array_equal(Unfold(acl).result(acl.stream()), Unfold.expected())


def test_large_copies_return_the_bytes_and_so_do_parts_of_them(acl: Acl) -> None:
    values = np.random.default_rng(1).integers(0, 256, LARGE, np.uint8)
    address = acl.upload(values)
    np.testing.assert_array_equal(acl.read(address, values), values)
    part = values[1000:900_001]
    np.testing.assert_array_equal(acl.read(address + 1000, part), part)


@pytest.mark.slow
def test_large_copies_without_shared_memory_return_the_bytes(
    idle: Acl, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = '["ascend910b"]'
    with private_service(devices=devices, shared_memory="false") as addresses:
        monkeypatch.setenv("OPSERVE_ADDRESS", addresses.rest)
        idle.done("aclInit", None)
        idle.done("aclrtSetDevice", 0)
        values = np.random.default_rng(2).integers(0, 256, LARGE, np.uint8)
        address = idle.upload(values)
        part = values[5:-5]
        np.testing.assert_array_equal(idle.read(address + 5, part), part)
        idle.done("aclFinalize")


def test_copy_on_the_device_and_fill_write_the_range_alone(acl: Acl) -> None:
    source, target = acl.upload(np.arange(64, dtype=np.uint8)), acl.malloc(64)
    whole, part = c_uint64(64), c_uint64(16)
    acl.done("aclrtMemset", c_void_p(target), whole, -1, whole)
    acl.done("aclrtMemcpy", c_void_p(target + 8), part, c_void_p(source + 4), part, 3)
    found = acl.read(target, np.zeros(64, np.uint8))
    expected = np.full(64, 255, np.uint8)
    expected[8:24] = np.arange(4, 20)
    np.testing.assert_array_equal(found, expected)


def test_freed_address_is_known_and_never_given_again(acl: Acl) -> None:
    first = acl.malloc(64)
    acl.done("aclrtFree", c_void_p(first))
    second = acl.malloc(64)
    assert second != first
    one = c_uint64(1)
    host = (c_int * 16)()
    assert acl.aclrtMemcpy(c_void_p(first), one, host, one, 1) == PARAM_INVALID
    assert acl.aclrtMemcpy(host, one, c_void_p(first), one, 2) == PARAM_INVALID
    assert acl.aclrtFree(c_void_p(first)) == PARAM_INVALID
    assert "not that of allocated device memory" in acl.message()


def test_range_beyond_an_allocation_is_rejected(acl: Acl) -> None:
    address, host = acl.malloc(64), (c_int * 32)()
    size = c_uint64(65)
    assert acl.aclrtMemcpy(c_void_p(address), size, host, size, 1) == PARAM_INVALID
    size = c_uint64(1)
    assert acl.aclrtMemcpy(c_void_p(address + 64), size, host, size, 1) == PARAM_INVALID
    assert acl.aclrtMemcpy(c_void_p(address), size, host, c_uint64(2), 1) == PARAM_INVALID
    assert acl.aclrtMemcpy(None, size, host, size, 1) == INVALID_PARAM
    assert acl.aclrtMemcpy(None, c_uint64(0), None, c_uint64(0), 1) == SUCCESS


def test_sizes_and_pointers_of_allocations_are_checked(acl: Acl) -> None:
    assert acl.aclrtMalloc(None, c_uint64(1), 0) == INVALID_PARAM
    assert acl.aclrtMalloc(byref(c_void_p()), c_uint64(0), 0) == INVALID_PARAM
    assert acl.aclrtMalloc(byref(c_void_p()), c_uint64(1 << 50), 0) == 207001
    assert acl.aclrtFree(None) == INVALID_PARAM


def test_tensor_inside_an_allocation_is_read_where_it_is(acl: Acl) -> None:
    call = Unfold(acl)
    inside = acl.malloc(4096)
    acl.write(inside + 128, call.image)
    call.arguments = (acl.tensor((1, 3, 4), inside + 128), *call.arguments[1:])
    np.testing.assert_array_equal(call.result(), Unfold.expected())


def test_tensor_at_an_odd_address_is_invalid(acl: Acl) -> None:
    call = Unfold(acl)
    call.arguments = (acl.tensor((1, 3, 4), acl.malloc(4096) + 2), *call.arguments[1:])
    assert call.plan() == INVALID


def test_tensor_in_freed_memory_is_known(acl: Acl) -> None:
    call = Unfold(acl)
    acl.done("aclrtFree", c_void_p(call.source))
    assert call.plan() == PARAM_INVALID


def test_tensor_without_memory_can_be_planned(acl: Acl) -> None:
    call = Unfold(acl)
    call.arguments = (
        acl.tensor((1, 3, 4), None),
        *call.arguments[1:5],
        acl.tensor(call.shape, None),
    )
    assert call.plan() == SUCCESS


def test_null_arguments_and_pointers_are_161001(acl: Acl) -> None:
    call = Unfold(acl)
    arguments = call.arguments
    call.arguments = (None, *arguments[1:])
    assert call.plan() == NULLPTR
    assert "self" in acl.message()
    size, executor = byref(call.size), byref(call.executor)
    assert acl.aclnnIm2colGetWorkspaceSize(*arguments, None, executor) == NULLPTR
    assert acl.aclnnIm2colGetWorkspaceSize(*arguments, size, None) == NULLPTR
    assert acl.aclnnIm2col(None, c_uint64(0), None, None) == NULLPTR


def test_executor_runs_once(acl: Acl) -> None:
    call = Unfold(acl)
    call.result()
    assert call.run() == INVALID_HANDLE


@pytest.mark.parametrize(
    ("set_input", "set_output", "set_any"),
    [
        ("aclSetInputTensorAddr", "aclSetOutputTensorAddr", "aclSetTensorAddr"),
        ("AclSetInputTensorAddr", "AclSetOutputTensorAddr", "AclSetTensorAddr"),
    ],
)
def test_repeatable_executor_runs_again_on_other_addresses(
    acl: Acl, set_input: str, set_output: str, set_any: str
) -> None:
    call = Unfold(acl)
    assert call.plan() == SUCCESS
    acl.done("aclSetAclOpExecutorRepeatable", call.executor)
    assert call.run() == SUCCESS
    other = acl.upload(np.concatenate([np.zeros(4, np.float32), 2 * call.image.ravel()]))
    source, target = call.tensors
    zero, one = c_uint64(0), c_uint64(1)
    results = [acl.malloc(4 * 24), acl.malloc(4 * 24)]
    acl.done(set_input, call.executor, zero, source, c_void_p(other + 16))
    for result, (set_target, index) in zip(
        results, [(set_any, one), (set_output, zero)], strict=True
    ):
        acl.done(set_target, call.executor, index, target, c_void_p(result))
        assert call.run() == SUCCESS, acl.message()
        acl.done("aclrtSynchronizeDevice")
        found = acl.read(result, np.zeros(call.shape, np.float32))
        np.testing.assert_array_equal(found, 2 * Unfold.expected())
    beyond = getattr(acl, set_output)
    assert beyond(call.executor, one, target, c_void_p(results[0])) == INVALID
    assert beyond(None, one, target, c_void_p(results[0])) == INNER_NULLPTR
    acl.done("aclDestroyAclOpExecutor", call.executor)
    assert call.run() == INVALID_HANDLE


def test_workspace_that_is_missing_ends_the_executor(acl: Acl) -> None:
    call = Unfold(acl)
    call.plan()
    assert acl.aclnnIm2col(None, c_uint64(512), call.executor, None) == NULLPTR
    assert call.run() == INVALID_HANDLE


def test_rule_of_the_page_is_a_warning_in_the_messages(
    acl: Acl, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        call = Unfold(acl)
        call.arguments = (*call.arguments[:5], acl.tensor(call.shape, call.target, NCHW))
        assert call.plan() == SUCCESS
        assert "out has format NCHW, and the page allows format ND" in acl.message()
    assert capfd.readouterr().err.count("out has format NCHW, and the page allows format ND") == 1


def test_messages_are_of_one_thread_newest_first_and_read_once(acl: Acl) -> None:
    acl.aclrtFree(None)
    acl.aclrtSetDevice(99)
    first, second = acl.message().splitlines()
    assert "aclrtSetDevice" in first
    assert "(107001)" in first
    assert "aclrtFree" in second
    assert acl.message() == ""
    assert acl.aclrtPeekAtLastError(0) == INVALID_DEVICE
    assert [acl.aclrtGetLastError(0), acl.aclrtGetLastError(0)] == [INVALID_DEVICE, SUCCESS]


def test_events_order_streams_and_measure(acl: Acl) -> None:
    first, second = acl.stream(), acl.stream()
    start, end = c_void_p(), c_void_p()
    acl.done("aclrtCreateEvent", byref(start))
    acl.done("aclrtCreateEventWithFlag", byref(end), 8)
    acl.done("aclrtRecordEvent", start, first)
    call = Unfold(acl)
    call.plan()
    call.run(first)
    acl.done("aclrtRecordEvent", end, first)
    acl.done("aclrtStreamWaitEvent", second, end)
    acl.done("aclrtSynchronizeStreamWithTimeout", second, 60_000)
    acl.done("aclrtSynchronizeEvent", end)
    status, elapsed = c_int(), c_float()
    acl.done("aclrtQueryEventStatus", end, byref(status))
    acl.done("aclrtEventElapsedTime", byref(elapsed), start, end)
    assert status.value == 1
    assert elapsed.value > 0
    acl.done("aclrtStreamQuery", second, byref(status))
    assert status.value == 0
    acl.done("aclrtDestroyEvent", start)
    assert acl.aclrtDestroyEvent(start) == PARAM_INVALID
    assert acl.aclrtCreateEventWithFlag(byref(end), 0x40) == NOT_SUPPORTED


def test_streams_that_do_not_exist_are_rejected(acl: Acl) -> None:
    stream = acl.stream()
    acl.done("aclrtDestroyStream", stream)
    for missing in (stream, c_void_p(8), c_void_p((1 << 64) - 1)):
        assert acl.aclrtSynchronizeStream(missing) == PARAM_INVALID
    other = acl.stream()
    acl.done("aclrtSetStreamFailureMode", other, c_uint64(1))
    acl.done("aclrtDestroyStreamForce", other)


def test_contexts_are_sessions_of_their_own(acl: Acl) -> None:
    mine, other = c_void_p(), c_void_p()
    acl.done("aclrtGetCurrentContext", byref(mine))
    stream, address = acl.stream(), acl.upload(np.arange(4, dtype=np.uint8))
    acl.done("aclrtCreateContext", byref(other), 1)
    number = c_int32()
    acl.done("aclrtGetDevice", byref(number))
    assert (number.value, acl.aclrtGetSocName()) == (1, b"Ascend310P")
    assert acl.aclrtSynchronizeStream(stream) == STREAM_CONTEXT
    target, size = acl.malloc(4), c_uint64(4)
    acl.done("aclrtMemcpy", c_void_p(target), size, c_void_p(address), size, 3)
    assert acl.read(target, np.zeros(4, np.uint8)).tolist() == [0, 1, 2, 3]
    acl.done("aclrtDestroyContext", other)
    assert acl.aclrtCreateStream(byref(c_void_p())) == CONTEXT_NULL
    assert acl.aclrtSetCurrentContext(other) == PARAM_INVALID
    acl.done("aclrtSetCurrentContext", mine)
    acl.done("aclrtSynchronizeStream", stream)
    assert acl.aclrtDestroyContext(mine) == PARAM_INVALID


def test_device_is_reference_counted(acl: Acl) -> None:
    acl.done("aclrtSetDevice", 0)
    acl.done("aclrtResetDevice", 0)
    address = acl.malloc(64)
    acl.done("aclrtResetDevice", 0)
    assert acl.aclrtFree(c_void_p(address)) == PARAM_INVALID
    assert acl.aclrtResetDevice(0) == CONTEXT_NULL
    assert acl.aclrtMalloc(byref(c_void_p()), c_uint64(1), 0) == CONTEXT_NULL


def test_options_of_process_and_context_are_kept(acl: Acl) -> None:
    value = c_int64()
    assert acl.aclrtGetSysParamOpt(0, byref(value)) == OPTION_NOT_SET
    assert acl.aclrtCtxGetSysParamOpt(0, byref(value)) == OPTION_NOT_SET
    acl.done("aclrtSetSysParamOpt", 0, c_int64(1))
    acl.done("aclrtCtxSetSysParamOpt", 0, c_int64(3))
    acl.done("aclrtGetSysParamOpt", 0, byref(value))
    assert value.value == 1
    acl.done("aclrtCtxGetSysParamOpt", 0, byref(value))
    assert value.value == 3
    assert acl.aclrtSetSysParamOpt(0, c_int64(4)) == PARAM_INVALID
    assert acl.aclrtSetSysParamOpt(1, c_int64(1)) == NOT_SUPPORTED


def test_device_reports_its_memory_and_the_program_its_devices(acl: Acl) -> None:
    free, total, count, mode = c_uint64(), c_uint64(), c_uint32(), c_int()
    acl.done("aclrtGetMemInfo", 1, byref(free), byref(total))
    assert 0 < free.value <= total.value
    acl.done("aclrtGetDeviceCount", byref(count))
    acl.done("aclrtGetRunMode", byref(mode))
    assert (count.value, mode.value) == (2, 1)


def test_host_memory_is_known(acl: Acl) -> None:
    address = c_void_p()
    acl.done("aclrtMallocHost", byref(address), c_uint64(100))
    acl.done("aclrtFreeHost", address)
    assert acl.aclrtFreeHost(address) == PARAM_INVALID


def test_tensor_reports_its_parts(acl: Acl) -> None:
    tensor = acl.tensor((2, 3), None)
    dims, count, value = POINTER(c_int64)(), c_uint64(), c_int64()
    acl.done("aclGetViewShape", tensor, byref(dims), byref(count))
    assert dims[: count.value] == [2, 3]
    acl.done("aclGetViewStrides", tensor, byref(dims), byref(count))
    assert dims[: count.value] == [3, 1]
    acl.done("aclGetViewOffset", tensor, byref(value))
    assert value.value == 0
    acl.done("aclSetRawTensorAddr", tensor, c_void_p(77))
    address = c_void_p()
    acl.done("aclGetRawTensorAddr", tensor, byref(address))
    assert address.value == 77
    assert acl.aclGetViewShape(None, byref(dims), byref(count)) == NULLPTR
    assert (
        acl.aclCreateTensor(None, c_uint64(1), 0, None, c_int64(0), 2, None, c_uint64(0), None)
        is None
    )
    for name in ("Tensor", "IntArray", "BoolArray", "TensorList"):
        acl.done(f"aclDestroy{name}", None)
    acl.done("aclDestroyTensor", tensor)


def test_arrays_copy_their_values(acl: Acl) -> None:
    values = (c_int64 * 2)(2, 2)
    array = c_void_p(acl.aclCreateIntArray(values, c_uint64(2)))
    values[0] = 99
    call = Unfold(acl)
    call.arguments = (call.arguments[0], array, *call.arguments[2:])
    np.testing.assert_array_equal(call.result(), Unfold.expected())
    assert acl.aclCreateIntArray(None, c_uint64(2)) is None


def test_half_numbers_convert_as_numpys_and_saturate(acl: Acl) -> None:
    to_half: Any = acl.aclFloatToFloat16
    to_float: Any = acl.aclFloat16ToFloat
    to_float.restype = c_float
    numbers = [0.0, -0.0, 1.0, 0.1, -3.14159, 6e-8, 1e-5, 6.1e-5, 1023.5, 2049.0, 65504.0]
    for number in numbers:
        half = np.float16(np.float32(number))
        assert to_half(c_float(number)) & 0xFFFF == half.view(np.uint16)
        assert to_float(int(half.view(np.uint16))) == float(half)
    assert to_half(c_float(1e6)) & 0xFFFF == 0x7BFF
    assert to_half(c_float(-np.inf)) & 0xFFFF == 0xFBFF


def test_begin_and_end_are_checked(idle: Acl) -> None:
    assert idle.aclrtMalloc(byref(c_void_p()), c_uint64(1), 0) == UNINITIALIZE
    idle.done("aclInit", None)
    assert idle.aclInit(None) == REPEAT_INITIALIZE
    idle.done("aclrtSetDevice", 0)
    address = idle.malloc(64)
    idle.done("aclFinalize")
    assert idle.aclFinalize() == REPEAT_FINALIZE
    assert idle.aclrtFree(c_void_p(address)) == UNINITIALIZE
    idle.done("aclnnInit", None)
    assert idle.aclrtFree(c_void_p(address)) == PARAM_INVALID
    idle.done("aclnnFinalize")


def test_devices_are_counted_and_named_before_the_begin(
    idle: Acl, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = c_uint32()
    idle.done("aclrtGetDeviceCount", byref(count))
    assert (count.value, idle.aclrtGetSocName()) == (2, b"Ascend910B")
    monkeypatch.setenv("OPSERVE_ABI_DEVICES", ",")
    idle.done("aclrtGetDeviceCount", byref(count))
    assert (count.value, idle.aclrtGetSocName()) == (0, None)
    assert "OPSERVE_ABI_DEVICES" in idle.message()


def test_configuration_with_settings_is_refused(idle: Acl, tmp_path: Any) -> None:
    file = tmp_path / "acl.json"
    assert idle.aclInit(str(file).encode()) == 100003
    file.write_text('{"dump": {}}')
    assert idle.aclInit(str(file).encode()) == 200001
    file.write_text(" {\n} ")
    idle.done("aclInit", str(file).encode())
    idle.done("aclFinalize")


@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("127.0.0.1:50051", PARAM_INVALID, "HTTP address"),
        ("grpc://127.0.0.1:50051", PARAM_INVALID, "HTTP address"),
        ("http://", PARAM_INVALID, "names no host"),
        ("http://127.0.0.1:1", 507901, "no service answers"),
    ],
)
def test_address_that_cannot_be_used_is_explained(
    address: str, code: int, words: str, idle: Acl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPSERVE_ADDRESS", address)
    assert idle.aclInit(None) == code
    assert words in idle.message()


def test_key_is_not_sent_to_another_machine_without_tls(
    idle: Acl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPSERVE_ADDRESS", "http://192.0.2.1:8080")
    monkeypatch.setenv("OPSERVE_API_KEY", "ops_key")
    assert idle.aclInit(None) == PARAM_INVALID
    assert "without TLS" in idle.message()


@pytest.mark.slow
def test_tls_checks_the_certificate_of_the_service(
    idle: Acl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, other = tmp_path / "authority.pem", tmp_path / "other.pem"
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    made = trustme.CA()
    made.cert_pem.write_to_path(f"{authority}")
    trustme.CA().cert_pem.write_to_path(f"{other}")
    issued = made.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(f"{certificate}")
    issued.private_key_pem.write_to_path(f"{key}")
    files = {"tls_certificate_file": f"{certificate}", "tls_key_file": f"{key}"}
    with private_service(devices='["ascend910b"]', shared_memory="false", **files) as addresses:
        monkeypatch.setenv("OPSERVE_ADDRESS", addresses.rest)
        monkeypatch.setenv("OPSERVE_CA", f"{other}")
        assert idle.aclInit(None) == PARAM_INVALID
        assert "certificate" in idle.message()
        monkeypatch.setenv("OPSERVE_CA", f"{authority}")
        idle.done("aclInit", None)
        idle.done("aclrtSetDevice", 0)
        values = np.random.default_rng(3).integers(0, 256, LARGE, np.uint8)
        np.testing.assert_array_equal(idle.read(idle.upload(values), values), values)
        idle.done("aclFinalize")


def test_grpc_api_is_named_as_the_wrong_one(
    idle: Acl, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPSERVE_ADDRESS", f"http://{service.grpc}")
    assert idle.aclInit(None) == 507901
