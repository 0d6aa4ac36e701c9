"""Functions of the headers that no other test calls; every declared one is called by some test."""

import re
from ctypes import POINTER, byref, c_bool, c_float, c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abi.acl import FLOAT, NCHW, Acl, Unfold

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "client/opserve_client/abi/include"
NULLPTR, PARAM_INVALID = 161001, 107000
BYTES = {
    1: ("INT8", "UINT8", "BOOL", "HIFLOAT8", "FLOAT8_E5M2", "FLOAT8_E4M3FN", "FLOAT8_E8M0"),
    2: ("FLOAT16", "BF16", "INT16", "UINT16"),
    4: ("FLOAT", "INT32", "UINT32", "COMPLEX32"),
    8: ("DOUBLE", "INT64", "UINT64", "COMPLEX64"),
    16: ("COMPLEX128",),
}
SIZES = {f"ACL_{name}": size for size, names in BYTES.items() for name in names}
ARRAYS: list[tuple[Any, str, str, str]] = [
    ((c_int64 * 3)(4, 5, 6), "aclCreateIntArray", "aclGetIntArraySize", "aclDestroyIntArray"),
    ((c_float * 3)(), "aclCreateFloatArray", "aclGetFloatArraySize", "aclDestroyFloatArray"),
    ((c_bool * 3)(), "aclCreateBoolArray", "aclGetBoolArraySize", "aclDestroyBoolArray"),
]


def test_every_declared_function_is_named_by_a_test() -> None:
    headers = "".join(header.read_text() for header in INCLUDE.rglob("*.h"))
    declared = set(re.findall(r"\b([aA]cl\w+)\(", headers))
    tests = "".join(test.read_text() for test in HERE.glob("*.py"))
    assert len(declared) > 80
    assert declared - set(re.findall(r"\b[aA]cl\w+", tests)) == set()


@pytest.mark.parametrize(("values", "create", "size_of", "destroy"), ARRAYS)
def test_array_has_a_size(idle: Acl, values: Any, create: str, size_of: str, destroy: str) -> None:
    array, size = c_void_p(getattr(idle, create)(values, c_uint64(3))), c_uint64()
    idle.done(size_of, array, byref(size))
    assert size.value == 3
    assert getattr(idle, size_of)(None, byref(size)) == NULLPTR
    assert getattr(idle, size_of)(array, None) == NULLPTR
    assert getattr(idle, create)(None, c_uint64(1)) is None
    idle.done(destroy, array)
    idle.done(destroy, None)


def test_list_has_a_size_and_ends_with_its_entries(idle: Acl) -> None:
    tensors = (c_void_p * 2)(*(idle.tensor((2, 3), None).value for _ in range(2)))
    made, size = c_void_p(idle.aclCreateTensorList(tensors, c_uint64(2))), c_uint64()
    idle.done("aclGetTensorListSize", made, byref(size))
    assert size.value == 2
    assert idle.aclGetTensorListSize(None, byref(size)) == NULLPTR
    idle.done("aclDestroyTensorList", made)
    scalars = (c_void_p * 3)(*(idle.aclCreateScalar(byref(c_float()), FLOAT) for _ in range(3)))
    made = c_void_p(idle.aclCreateScalarList(scalars, c_uint64(3)))
    idle.done("aclGetScalarListSize", made, byref(size))
    assert size.value == 3
    assert idle.aclGetScalarListSize(None, byref(size)) == NULLPTR
    idle.done("aclDestroyScalarList", made)
    idle.done("aclDestroyScalar", c_void_p(idle.aclCreateScalar(byref(c_float()), FLOAT)))


def test_initialized_tensor_has_the_new_parts(idle: Acl) -> None:
    tensor, half = idle.tensor((2, 3), None), 1
    view, strides, storage = (c_int64 * 2)(4, 5), (c_int64 * 2)(10, 2), (c_int64 * 1)(99)
    two, one = c_uint64(2), c_uint64(1)
    rest = (half, strides, c_int64(7), NCHW, storage, one, c_void_p(512))
    idle.done("aclInitTensor", tensor, view, two, *rest)
    dims, count, value, offset = POINTER(c_int64)(), c_uint64(), c_int(), c_int64()
    idle.done("aclGetViewShape", tensor, byref(dims), byref(count))
    assert dims[: count.value] == [4, 5]
    idle.done("aclGetViewStrides", tensor, byref(dims), byref(count))
    assert dims[: count.value] == [10, 2]
    idle.done("aclGetStorageShape", tensor, byref(dims), byref(count))
    assert dims[: count.value] == [99]
    idle.done("aclGetDataType", tensor, byref(value))
    assert value.value == half
    idle.done("aclGetFormat", tensor, byref(value))
    assert value.value == NCHW
    idle.done("aclGetViewOffset", tensor, byref(offset))
    assert offset.value == 7
    assert idle.aclInitTensor(None, view, two, *rest) == NULLPTR
    assert idle.aclInitTensor(tensor, None, two, *rest) == NULLPTR


def test_every_type_has_its_bytes_and_types_of_part_bytes_have_none(idle: Acl) -> None:
    text = (INCLUDE / "acl/acl_base.h").read_text()
    enumerators = re.findall(r"(ACL_\w+) = (-?\d+)", text.split("} aclDataType")[0])
    assert len(enumerators) > 25
    found = {name: idle.aclDataTypeSize(int(value)) for name, value in enumerators}
    assert {name: size for name, size in found.items() if size} == SIZES


def test_memory_of_32_bytes_alignment_is_memory(acl: Acl) -> None:
    address, size = c_void_p(), c_uint64(100)
    acl.done("aclrtMallocAlign32", byref(address), size, 0)
    assert (address.value or 1) % 32 == 0
    acl.done("aclrtMemset", address, size, 7, size)
    assert acl.read(address.value or 0, np.zeros(100, np.uint8)).tolist() == [7] * 100
    acl.done("aclrtFree", address)


def test_copy_and_fill_of_a_stream_have_its_order(acl: Acl) -> None:
    call, stream = Unfold(acl), acl.stream()
    found, size = np.zeros(call.shape, np.float32), c_uint64(4 * 24)
    source = acl.malloc(call.image.nbytes)
    acl.write(source, call.image)
    image = c_uint64(call.image.nbytes)
    acl.done("aclrtMemsetAsync", c_void_p(call.source), image, 1, image, stream)
    target = c_void_p(call.source)
    acl.done("aclrtMemcpyAsync", target, image, c_void_p(source), image, 3, stream)
    assert call.plan() == 0
    assert call.run(stream) == 0
    host, device = c_void_p(found.ctypes.data), c_void_p(call.target)
    acl.done("aclrtMemcpyAsync", host, size, device, size, 2, stream)
    acl.done("aclrtSynchronizeStream", stream)
    np.testing.assert_array_equal(found, Unfold.expected())
    acl.done("aclrtMemsetAsync", device, size, 0, size, stream)
    assert not acl.read(call.target, found).any()
    foreign = c_void_p(8)
    assert acl.aclrtMemcpyAsync(host, size, device, size, 2, foreign) == PARAM_INVALID
    assert acl.aclrtMemsetAsync(device, size, 0, size, foreign) == PARAM_INVALID
    assert acl.aclrtMemsetAsync(device, size, 0, c_uint64(4 * 24 + 1), stream) == PARAM_INVALID


def test_stream_and_event_with_options_are_streams_and_events(acl: Acl) -> None:
    stream, event, status = c_void_p(), c_void_p(), c_int()
    acl.done("aclrtCreateStreamWithConfig", byref(stream), 5, 1)
    acl.done("aclrtCreateEventExWithFlag", byref(event), 2)
    acl.done("aclrtRecordEvent", event, stream)
    acl.done("aclrtSynchronizeEventWithTimeout", event, 60_000)
    acl.done("aclrtQueryEventStatus", event, byref(status))
    assert status.value == 1
    assert acl.aclrtSynchronizeEventWithTimeout(event, -2) == PARAM_INVALID
    assert acl.aclrtSynchronizeEventWithTimeout(c_void_p(8), 1) == PARAM_INVALID
    assert acl.aclrtCreateEventExWithFlag(byref(c_void_p()), 0x20) == 207000
    acl.done("aclrtDestroyEvent", event)
    acl.done("aclrtDestroyStream", stream)
