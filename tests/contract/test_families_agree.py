"""Over every API and kind of client, parts and zeros of arguments stay what they are."""

import io
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import numpy as np
import pytest

from contract.apis import AnySession, Refusal, every_session, refusal, settle
from opserve_client import (
    AclrtError,
    Conv2dBackpropFilter,
    Conv2dBackpropInput,
    DeconvError,
    DeconvGradFilter,
    OpserveError,
    Session,
    TbeError,
    from_fractal_z,
    group_dict,
    to_5hd,
    to_fractal_z,
)
from opserve_client.files import run_file
from opserve_client.private_service import Addresses

pytestmark = pytest.mark.system
PARAM = (16, 4, 4, 1, 16, 4, 4, 1, 4, 4, 1, 1, 0, 0, 1, 1, 1, 0)
TAPS = np.arange(4, 0, -1)
EXPECTED = (16.0 * TAPS[:, None] * TAPS).reshape(1, 16, 1)
"""The vendor's example, all ones: tap (r, s) meets (4-r)(4-s) elements of each of 16 images."""


def ones() -> dict[str, Any]:
    return {name: np.ones((16, 4, 4, 1), np.float32) for name in ("dy_data", "x_data")}


def image(channels: int) -> Any:  # an array
    return to_5hd(np.ones((1, channels, 3, 3), np.float16))


def backprop_input(**para_dict: object) -> Conv2dBackpropInput:
    needed: Any = {"strides": [1, 1], "padding": [0, 0, 0, 0], "dilations": [1, 1, 1, 1]}
    return Conv2dBackpropInput(
        filters=to_fractal_z(np.ones((16, 16, 1, 1), np.float16)),
        out_backprop=image(16),
        filter_sizes=[16, 16, 1, 1],
        input_sizes=[1, 16, 3, 3],
        res_tensor=np.zeros((1, 1, 3, 3, 16), np.float16),
        para_dict=needed | para_dict,
    )


def backprop_filter(**arguments: Any) -> Conv2dBackpropFilter:
    images = {"input_x": image(16), "out_backprop": image(16)}
    return Conv2dBackpropFilter(**images, filter_sizes=[16, 16, 1, 1], **arguments)


@pytest.fixture
async def dsp(service: Addresses) -> AsyncIterator[Mapping[str, AnySession]]:
    async with every_session(service, "MT7004") as sessions:
        yield sessions


@pytest.fixture
async def npu(service: Addresses) -> AsyncIterator[Mapping[str, AnySession]]:
    async with every_session(service, "Ascend910A") as sessions:
        yield sessions


async def outcomes(sessions: Mapping[str, AnySession], call: Any) -> dict[str, Any]:
    """The outcome over each API: the only output, or the refusal."""
    found: dict[str, Any] = {}
    for way, session in sessions.items():
        try:
            (found[way],) = await settle(session.run(call))
        except OpserveError as error:
            found[way] = refusal(error)
    return found


async def refused(sessions: Mapping[str, AnySession], call: Any) -> Refusal:
    """The refusal over every API."""
    found = await outcomes(sessions, call)
    first: Refusal = found["gRPC, blocking"]
    assert isinstance(first, Refusal), first
    assert all(outcome == first for outcome in found.values())
    return first


async def test_a_session_is_named_by_its_profile_in_any_spelling(
    dsp: Mapping[str, AnySession],
) -> None:
    assert {session.device.profile for session in dsp.values()} == {"mt7004"}


@pytest.mark.parametrize(
    ("arguments", "name", "parameter"),
    [
        ({"param": [*PARAM[:16], 0, 0]}, "DECONV_PARAM_INVALID", "group"),
        ({"kernel_h": 4, "kernel_w": 4, "group": 0}, "DECONV_PARAM_INVALID", "group"),
        ({"kernel_h": 0, "kernel_w": 4}, "DECONV_PARAM_INVALID", "kernel_h"),
        ({"kernel_w": 4}, "DECONV_PARAM_NULL", "kernel_h"),
        ({"param": PARAM, "core_mask": 0}, "DECONV_PARAM_INVALID", "core_mask"),
        ({"param": PARAM, "function": ""}, "DECONV_PARAM_INVALID", "function"),
        ({"param": PARAM, "row_order": ""}, "DECONV_PARAM_INVALID", "row_order"),
        ({"param": ()}, "DECONV_PARAM_INVALID", "param"),
    ],
)
async def test_zeros_and_empty_values_of_a_deconvolution_are_not_absent(
    dsp: Mapping[str, AnySession], arguments: dict[str, Any], name: str, parameter: str
) -> None:
    out = np.zeros((1, 16, 1), np.float32)  # which could not be inferred
    refusal = await refused(dsp, DeconvGradFilter(**ones(), dw_data=out, **arguments))
    assert (refusal.kind, refusal.name, refusal.parameter) == (DeconvError, name, parameter)


@pytest.mark.parametrize(
    "arguments",
    [
        {"param": PARAM},
        {"kernel_h": 4, "kernel_w": 4, "pad_u": 0, "temp_space": 0, "row_order": "oc_kh_kw"},
        {"param": PARAM, "core_mask": 0b1111, "function": "fp_deconv_grad_filter_s"},
    ],
    ids=["array", "fields", "function"],
)
async def test_the_vendors_deconvolution_is_right_on_every_way(
    dsp: Mapping[str, AnySession], arguments: dict[str, Any]
) -> None:
    for way, array in (await outcomes(dsp, DeconvGradFilter(**ones(), **arguments))).items():
        np.testing.assert_array_equal(array, EXPECTED, way)


async def test_temp_space_is_a_live_buffer_of_the_session_and_large_enough(
    dsp: Mapping[str, AnySession],
) -> None:
    for session in dsp.values():
        large, small = [await settle(session.allocate(size)) for size in (2**20, 1)]
        in_param: dict[str, Any] = {"param": [*PARAM[:17], large]}
        for named in (in_param, fields_with(large)):
            (array,) = await settle(session.run(DeconvGradFilter(**ones(), **named)))
            np.testing.assert_array_equal(array, EXPECTED)
        with pytest.raises(DeconvError, match=r"temp_space does not accept buffer \d+ of 1 bytes"):
            await settle(session.run(DeconvGradFilter(**ones(), **fields_with(small))))
        await settle(large.free())
        with pytest.raises(AclrtError) as raised:
            await settle(session.run(DeconvGradFilter(**ones(), **fields_with(large))))
        assert (raised.value.code, raised.value.parameter) == (107017, "temp_space")


def fields_with(buffer: Any) -> dict[str, Any]:
    return {"kernel_h": 4, "kernel_w": 4, "temp_space": buffer}


@pytest.mark.parametrize(
    ("para_dict", "parameter"),
    [
        ({"offset_w": 0}, "para_dict.offset_w"),
        ({"strides": []}, "para_dict.strides"),
        ({"res_dtype": ""}, "para_dict.res_dtype"),
        (
            {"group_dict": group_dict((16, 16, 1, 1), 1) | {"g_extend": 0}},
            "para_dict.group_dict.g_extend",
        ),
    ],
)
async def test_zeros_and_empty_values_inside_para_dict_are_not_absent(
    npu: Mapping[str, AnySession], para_dict: dict[str, Any], parameter: str
) -> None:
    refusal = await refused(npu, backprop_input(**para_dict))
    assert (refusal.kind, refusal.parameter) == (TbeError, parameter)
    assert refusal.code == refusal.name
    assert refusal.name.startswith("E6")


async def test_the_gradients_of_tbe_are_right_on_every_way(npu: Mapping[str, AnySession]) -> None:
    given = group_dict((16, 16, 1, 1), 1)
    call = backprop_input(offset_x=0, offset_w=None, kernel_name="", group_dict=given)
    for way, array in (await outcomes(npu, call)).items():
        np.testing.assert_array_equal(array, np.full((1, 1, 3, 3, 16), 16, np.float16), way)
    for raw in (None, False, True):
        call_of_weight = backprop_filter(raw=raw, para_dict={"groups": 1, "kernel_name": ""})
        for way, array in (await outcomes(npu, call_of_weight)).items():
            weight = from_fractal_z(array, (16, 16, 1, 1))
            np.testing.assert_array_equal(weight, np.full((16, 16, 1, 1), 9, np.float32), way)


async def test_groups_of_zero_are_refused_and_not_taken_for_absent(
    npu: Mapping[str, AnySession],
) -> None:
    out = np.zeros((1, 1, 16, 16), np.float32)  # which could not be inferred
    refusal = await refused(npu, backprop_filter(para_dict={"groups": 0}, res_tensor=out))
    assert (refusal.kind, refusal.name, refusal.parameter) == (
        TbeError,
        "E64002",
        "para_dict.groups",
    )


async def test_a_file_names_operators_as_the_vendor_does(npu: Mapping[str, AnySession]) -> None:
    session = npu["Connect, blocking"]
    assert isinstance(session, Session)
    arguments = {
        "input_x": {"array": "x"},
        "out_backprop": {"array": "dy"},
        "filter_sizes": [16, 16, 1, 1],
        "para_dict": {"padding": [0, 0, 0, 0]},
        "raw": False,
    }
    arrays = {"x": image(16), "dy": image(16)}
    written = run_file(session, "conv2d_backprop_filter", arguments, arrays)
    np.testing.assert_array_equal(written["res_tensor"], np.full((1, 1, 16, 16), 9, np.float32))


def test_one_shot_takes_parts_and_the_formats_of_a_family(service: Addresses) -> None:
    answer = one_shot(service, padding=[0, 0, 0, 0])
    assert answer.status_code == 200, answer.text
    assert answer.headers["X-Opserve-Dtypes"] == '{"res_tensor": "FLOAT"}'
    problem = one_shot(service, strides=[1, 0]).json()
    members = (problem["domain"], problem["code"], problem["reason"])
    assert members == ("opserve.tbe", 64004, "E64004")
    assert problem["parameter"] == "para_dict.strides"


def test_the_one_shot_form_rejects_a_buffer_for_temp_space(service: Addresses) -> None:
    tensors = {"dy_data": {"array": "ones"}, "x_data": {"array": "ones"}}
    args = {"profile": "ft78ne", "arguments": tensors | fields_with(1)}
    problem = posted(service, "deconv_grad_filter", args, ones=ones()["x_data"]).json()
    assert (problem["status"], problem["code"]) == (404, 107017)
    assert (problem["parameter"], problem["given"]) == ("temp_space", "1")
    assert problem["allowed"].endswith("of which a call in one has none")


def one_shot(service: Addresses, **para_dict: object) -> httpx2.Response:
    arguments = {
        "input_x": {"array": "x"},
        "out_backprop": {"array": "dy"},
        "filter_sizes": [16, 16, 1, 1],
        "para_dict": para_dict,
    }
    args = {"profile": "Ascend910ProA", "arguments": arguments}
    return posted(service, "conv2d_backprop_filter", args, x=image(16), dy=image(16))


def posted(
    service: Addresses, call: str, args: Mapping[str, Any], **arrays: Any
) -> httpx2.Response:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return httpx2.post(
        f"{service.rest}/v1/operators/{call}:run",
        files={"args": ("args.json", json.dumps(args)), "tensors": ("in.npz", file.getvalue())},
    )
