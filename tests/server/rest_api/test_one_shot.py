"""The one-shot form, over a core that remembers what it was asked."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import numpy as np
import pytest
from numpy.typing import NDArray
from typing_extensions import override

from opserve_kernels.operators.convolution_backward.schema import ConvolutionBackward
from opserve_kernels.tensor import DataType, Format, Tensor
from opserve_server.core.errors import ExecutionFailed
from opserve_server.core.principal import Principal
from opserve_server.core.session_request import SessionRequest
from opserve_server.rest_api.models import SPELLINGS
from server.core import every_command as core
from server.recording import SESSION, RecordingService
from server.rest_api.conftest import BODY_LIMIT, RUN_LIMIT, Api

RUN = "/v1/operators/aclnnConvolutionBackward:run"
DY = np.arange(2 * 3 * 4 * 4, dtype=np.float32).reshape(2, 3, 4, 4)
X = np.arange(2 * 2 * 4 * 4, dtype=np.float32).reshape(2, 2, 4, 4)
W = np.arange(3 * 2, dtype=np.float32).reshape(3, 2, 1, 1)
ARGUMENTS: dict[str, Any] = {
    "grad_output": {"array": "dy"},
    "input": {"array": "x"},
    "weight": {"array": "w"},
    "bias_sizes": [3],
    "stride": [1, 1],
    "padding": [0, 0],
    "dilation": [1, 1],
    "transposed": False,
    "output_padding": [0, 0],
    "groups": 1,
    "output_mask": [False, True, True],
    "cube_math_type": 0,
}


def npz(**arrays: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


async def run(
    client: httpx2.AsyncClient, tensors: bytes | None = None, **arguments: object
) -> httpx2.Response:
    tensors = npz(dy=DY, x=X, w=W) if tensors is None else tensors
    args = json.dumps({"profile": "ascend910b", "arguments": ARGUMENTS | arguments})
    files = {"args": ("args.json", args.encode()), "tensors": ("in.npz", tensors)}
    return await client.post(RUN, files=files)


def floats(*shape: int, format_: Format = Format.NCHW) -> Tensor:
    return Tensor(shape=shape, dtype=DataType.FLOAT, format=format_)


PLANNED = ConvolutionBackward(
    grad_output=floats(2, 3, 4, 4),
    input=floats(2, 2, 4, 4),
    weight=floats(3, 2, 1, 1),
    grad_weight=floats(3, 2, 1, 1),
    grad_bias=floats(3, format_=Format.ND),
    bias_sizes=(3,),
    stride=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    transposed=False,
    output_padding=(0, 0),
    groups=1,
    output_mask=(False, True, True),
    cube_math_type=0,
)


async def test_a_small_call_is_one_command_of_a_session_that_ends(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await run(client)
    assert response.status_code == 200, response.text
    planned = core.GetWorkspaceSize(operator="convolution_backward", arguments=PLANNED)
    assert service.asked[0] == (SESSION, "", [planned])
    assert service.written == DY.tobytes() + X.tobytes() + W.tobytes()
    assert service.others == [
        ("open_session", SessionRequest(profile="ascend910b"), ""),
        ("close_session", SESSION),
    ]


async def test_a_large_call_is_planned_then_given_memory_then_run_and_its_session_ends(
    client: httpx2.AsyncClient, service: RecordingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opserve_server.core.one_shot.SMALL_BYTES", 0)
    response = await run(client)
    assert response.status_code == 200, response.text
    commands = [command for session, _, (command,) in service.asked if session == SESSION]
    assert commands[0] == core.GetWorkspaceSize(operator="convolution_backward", arguments=PLANNED)
    assert commands[1:11] == [
        command
        for size, index in [(384, 0), (256, 1), (24, 2), (24, 4), (12, 5)]
        for command in (
            core.Allocate(size_bytes=size),
            core.SetTensorBuffer(executor=9, index=index, buffer=7),
        )
    ]
    assert commands[11:] == [
        core.Allocate(workspace_of=9),
        core.Execute(executor=9, workspace=7),
        core.SynchronizeStream(),
    ]
    assert service.written == DY.tobytes() + X.tobytes() + W.tobytes()
    assert service.others[0] == ("open_session", SessionRequest(profile="ascend910b"), "")
    assert service.others[-1] == ("close_session", SESSION)


async def test_the_answer_holds_the_outputs_by_name(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await run(client)
    assert json.loads(response.headers["x-opserve-dtypes"]) == {
        "grad_weight": "FLOAT",
        "grad_bias": "FLOAT",
    }
    with np.load(io.BytesIO(response.content)) as loaded:
        assert list(loaded) == ["grad_weight", "grad_bias"]
        expected = np.frombuffer(service.content[:24], np.float32).reshape(3, 2, 1, 1)
        np.testing.assert_array_equal(loaded["grad_weight"].view("u1"), expected.view("u1"))


async def test_bf16_travels_as_its_bits(client: httpx2.AsyncClient) -> None:
    bits = {name: array.astype(np.uint16) for name, array in {"dy": DY, "x": X, "w": W}.items()}
    choices = {
        name: ARGUMENTS[name] | {"dtype": "BF16"} for name in ("grad_output", "input", "weight")
    }
    response = await run(client, npz(**bits), **choices)
    assert response.status_code == 200, response.text
    assert json.loads(response.headers["x-opserve-dtypes"])["grad_weight"] == "BF16"
    with np.load(io.BytesIO(response.content)) as loaded:
        assert loaded["grad_weight"].dtype == np.uint16


@pytest.mark.parametrize("name", sorted(SPELLINGS))
async def test_a_type_may_be_named_as_the_vendor_or_as_numpy_does(
    name: str, client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await run(client, grad_weight={"dtype": name})
    assert response.status_code != 400, response.text
    planned = service.asked[0][2][0]
    assert isinstance(planned, core.GetWorkspaceSize)
    chosen: DataType = planned.arguments.grad_weight.dtype
    assert chosen.value == (name if name.isupper() else VENDORS_NAME.get(name, name.upper()))


VENDORS_NAME = {"float32": "FLOAT", "float64": "DOUBLE", "bfloat16": "BF16"}


async def test_bf16_inputs_may_be_called_bfloat16(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    bits = {"dy": DY.astype(np.uint16), "x": X.astype(np.uint16), "w": W.astype(np.uint16)}
    choices = {
        name: ARGUMENTS[name] | {"dtype": "bfloat16"} for name in ("grad_output", "input", "weight")
    }
    response = await run(client, npz(**bits), **choices)
    assert response.status_code == 200, response.text
    planned = service.asked[0][2][0]
    assert isinstance(planned, core.GetWorkspaceSize)
    assert planned.arguments.input.dtype is DataType.BF16


async def test_an_unknown_type_is_refused_with_the_names_that_are_known(
    client: httpx2.AsyncClient,
) -> None:
    problem = (await run(client, grad_weight={"dtype": "float8"})).json()
    assert problem["given"] == '"float8"'
    assert problem["allowed"].startswith("one of ")
    assert {"FLOAT", "float32", "BF16", "bfloat16"} <= set(
        problem["allowed"].removeprefix("one of ").split(", ")
    )


async def test_an_outputs_type_and_format_may_be_chosen(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    await run(client, grad_weight={"dtype": "FLOAT16", "format": "ND"})
    planned = service.asked[0][2][0]
    assert isinstance(planned, core.GetWorkspaceSize)
    assert planned.arguments.grad_weight.dtype is DataType.FLOAT16
    assert planned.arguments.grad_weight.format is Format.ND
    assert planned.arguments.grad_weight.shape == (3, 2, 1, 1)


async def test_absent_arguments_reach_the_core_as_null_pointers(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await client.post(RUN, files={"args": (None, "{}")})
    assert response.status_code == 200, response.text
    planned = service.asked[0][2][0]
    assert planned == core.GetWorkspaceSize(
        operator="convolution_backward", arguments=ConvolutionBackward()
    )


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"input": {"array": "nothing"}}, "arguments.input.array"),
        ({"grad_weight": {"array": "w"}}, "arguments.grad_weight.array"),
        ({"input": {"array": "x", "dtype": "FLOAT16"}}, "arguments.input.dtype"),
        ({"input": {"array": "x", "dtype": "BF16"}}, "arguments.input.dtype"),
        ({"input": {"array": "x", "dtype": "UNDEFINED"}}, "arguments.input.dtype"),
        ({"input": {"array": "x", "dtype": "FLOAT8"}}, "args.arguments.input.dtype"),
        ({"input": {"buffer": 1}}, "args.arguments.input.buffer"),
        ({"inputs": {}}, "args.arguments.inputs"),
        ({"stride": [1, "1"]}, "args.arguments.stride.1"),
    ],
)
async def test_an_argument_of_another_form_is_refused_by_name(
    arguments: dict[str, Any],
    parameter: str,
    client: httpx2.AsyncClient,
    service: RecordingService,
) -> None:
    response = await run(client, **arguments)
    assert response.status_code == 400, response.text
    assert (response.json()["code"], response.json()["parameter"]) == (100000, parameter)
    assert not service.others


async def test_a_refused_call_leaves_no_session(
    client: httpx2.AsyncClient, service: RecordingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> Any:
        raise ExecutionFailed("executor: given 9", executor=9)

    monkeypatch.setattr(service, "run", refuse)
    response = await run(client)
    assert response.status_code == 500
    assert response.json()["executor"] == 9
    assert service.others[-1] == ("close_session", SESSION)


@pytest.mark.parametrize(
    ("tensors", "status"),
    [
        (b"", 400),
        (b"nonsense", 400),
        (npz(dy=np.zeros(3, "U3")), 400),
        (npz(**dict.fromkeys("abcd", X)), 413),
        (npz(dy=np.zeros(RUN_LIMIT, np.uint8)), 413),
    ],
    ids=["empty", "nonsense", "strings", "many", "large"],
)
async def test_tensors_of_another_form_are_refused(
    tensors: bytes, status: int, client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await run(client, tensors)
    assert response.status_code == status, response.text
    assert not service.asked


async def test_a_bomb_is_refused(client: httpx2.AsyncClient, service: RecordingService) -> None:
    file = io.BytesIO()
    np.savez_compressed(file, dy=np.zeros(10**7, np.float32))
    assert len(file.getvalue()) < RUN_LIMIT
    response = await run(client, file.getvalue())
    assert response.status_code == 413
    assert response.json()["code"] == 207012
    assert not service.asked


async def test_outputs_beyond_the_limit_are_refused_before_they_have_memory(
    client: httpx2.AsyncClient, service: RecordingService
) -> None:
    wide = np.zeros((1024, 9, 1, 1), np.float16)
    response = await run(
        client,
        npz(dy=np.zeros((1, 1024, 1, 1), np.float16), x=wide[:1], w=wide),
        grad_weight={"dtype": "DOUBLE"},
        bias_sizes=[1024],
    )
    assert response.status_code == 413
    assert response.json()["parameter"] == "outputs"
    assert [type(command) for _, _, (command,) in service.asked] == [core.GetWorkspaceSize]
    assert service.others[-1] == ("close_session", SESSION)


@pytest.mark.parametrize(
    "request_parts",
    [
        {"json": {}},
        {"content": b"", "headers": {"Content-Type": "multipart/form-data"}},
        {
            "content": b"nonsense",
            "headers": {"Content-Type": "multipart/form-data; boundary=x"},
        },
        {"files": [(f"part{i}", ("f", b"")) for i in range(3)]},
        {"files": {"args": (None, "{")}},
        {"files": {"args": ("args.json", b"{")}},
        {"files": {"args": (None, "{}"), "tensors": (None, "text")}},
    ],
    ids=["json", "no boundary", "broken", "many parts", "text args", "file args", "text tensors"],
)
async def test_a_body_of_another_form_is_refused(
    request_parts: dict[str, Any], client: httpx2.AsyncClient, service: RecordingService
) -> None:
    response = await client.post(RUN, **request_parts)
    assert response.status_code == 400, response.text
    assert response.json()["code"] == 100000
    assert not service.asked


@pytest.mark.parametrize("name", ["args", "tensors"])
async def test_parts_are_bounded(name: str, client: httpx2.AsyncClient) -> None:
    size = {"args": BODY_LIMIT, "tensors": RUN_LIMIT}[name]
    response = await client.post(RUN, files={name: ("file", b" " * (size + 1))})
    assert response.status_code == 413


async def test_an_endless_body_is_read_no_further_than_its_limit(
    client: httpx2.AsyncClient,
) -> None:
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'--x\r\nContent-Disposition: form-data; name="tensors"; filename="f"\r\n\r\n'
        while True:
            sent += 1000
            yield b" " * 1000

    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    response = await client.post(RUN, content=chunks(), headers=kind)
    assert response.status_code == 413
    assert sent <= RUN_LIMIT + 2000


class SlowService(RecordingService):
    """Counts the calls at work at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.most = 0

    @override
    async def run(
        self, principal: Principal, session: str, command: core.Command, *, request_id: str = ""
    ) -> Any:
        if isinstance(command, core.SynchronizeStream):
            self.now += 1
            self.most = max(self.most, self.now)
            for _ in range(100):
                await asyncio.sleep(0)
            self.now -= 1
        return await super().run(principal, session, command, request_id=request_id)


async def test_calls_at_work_at_the_same_time_are_bounded() -> None:
    service = SlowService()
    transport = httpx2.ASGITransport(app=Api(service).app())
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        responses = await asyncio.gather(*(run(client) for _ in range(4)))
    assert [response.status_code for response in responses] == [200] * 4
    assert service.most == 1


class EndlessService(RecordingService):
    """Its calls end when they are cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    @override
    async def run(
        self, principal: Principal, session: str, command: core.Command, *, request_id: str = ""
    ) -> Any:
        if isinstance(command, core.SynchronizeStream):
            self.begun.set()
            await asyncio.get_running_loop().create_future()
        return await super().run(principal, session, command, request_id=request_id)


async def test_a_call_ends_when_its_caller_disconnects() -> None:
    service = EndlessService()
    args = json.dumps({"arguments": ARGUMENTS}).encode()
    files = {"args": ("args.json", args), "tensors": ("in.npz", npz(dy=DY, x=X, w=W))}
    request = httpx2.Request("POST", f"http://localhost{RUN}", files=files)
    scope = {
        "type": "http",
        "method": "POST",
        "path": RUN,
        "query_string": b"",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
    }
    body = iter([{"type": "http.request", "body": request.read(), "more_body": False}])

    async def receive() -> Any:  # an ASGI message
        for message in body:
            return message
        await service.begun.wait()
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        raise AssertionError(f"no client receives {message}")

    await Api(service).app()(scope, receive, send)
    assert service.others[-1] == ("close_session", SESSION)
