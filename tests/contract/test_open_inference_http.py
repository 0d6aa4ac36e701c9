"""The Open Inference Protocol over HTTP: the bytes of session.run, and clear errors."""

import json
from collections.abc import Iterator
from typing import Any, Literal

import httpx2
import numpy as np
import pytest

from contract.open_inference import DATATYPES, DTYPES, ModelCall, model_call, ten_calls
from contract.test_open_inference import COLUMNS
from opserve_client import Client
from opserve_client.private_service import Addresses
from opserve_server.inference.unsupported import REASONS
from opserve_server.rest_api.app import ROUTES
from server.entry_points import every_route

pytestmark = [
    pytest.mark.system,
    pytest.mark.filterwarnings("ignore::opserve_client.DocumentedRuleWarning"),
]
LENGTH = "inference-header-content-length"
INFER = "/v2/models/aclnnIm2colBackward/infer"
WrongCall = tuple[str, dict[str, Any], bytes, int, str]
Way = Literal["binary", "lists", "tensors"]


@pytest.fixture
def http(service: Addresses) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=service.rest, timeout=60) as client:
        yield client


def infer(http: httpx2.Client, model: str, document: Any, binary: bytes = b"") -> httpx2.Response:
    text = json.dumps(document).encode()
    headers = {LENGTH: f"{len(text)}"} if binary else {}
    return http.post(f"/v2/models/{model}/infer", content=text + binary, headers=headers)


def document_of(call: ModelCall, way: Way) -> tuple[dict[str, Any], bytes]:
    """A call with parameters as text and binary inputs, or with lists, or with small tensors."""
    inputs, parameters = dict(call.inputs), dict[str, Any]()
    for name, value in call.parameters.items():
        form = value[:1] if isinstance(value, str) else ""
        if way == "tensors" and form == "[":
            inputs[name] = np.array(json.loads(f"{value}"))
        else:
            is_json = way == "lists" and form in {"[", "{"}
            parameters[name] = json.loads(f"{value}") if is_json else value
    document: dict[str, Any] = {"id": "of this test", "parameters": parameters, "inputs": []}
    binary = b""
    for name, array in inputs.items():
        datatype = DATATYPES[array.dtype.name]
        tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": array.shape}
        if way == "binary" or datatype == "BF16":
            tensor["parameters"] = {"binary_data_size": array.nbytes}
            binary += array.tobytes()
        else:
            tensor["data"] = array.tolist()
        document["inputs"].append(tensor)
    document["outputs"] = [
        {"name": name, "parameters": {"binary_data": way == "binary"}} for name in call.outputs
    ]
    return document, binary


def outputs_of(answer: httpx2.Response) -> dict[str, Any]:
    """The arrays of an answer."""
    length = int(answer.headers.get(LENGTH, len(answer.content)))
    document, binary = json.loads(answer.content[:length]), answer.content[length:]
    assert document["id"] == "of this test"
    found = dict[str, Any]()
    for output in document["outputs"]:
        dtype = DTYPES[output["datatype"]]
        if "data" in output:
            flat = np.array(output["data"]).astype(dtype)
        else:
            size = output["parameters"]["binary_data_size"]
            flat, binary = np.frombuffer(binary[:size], dtype), binary[size:]
        found[output["name"]] = flat.reshape(output["shape"])
    assert not binary
    return found


@pytest.mark.parametrize(
    ("dtype", "way"),
    [
        *((dtype, "binary") for dtype in ("float32", "float16", "bfloat16", "float64")),
        *(("float32", "lists"), ("bfloat16", "lists"), ("float16", "tensors")),
    ],
)
def test_ten_calls_give_the_bytes_of_session_run(
    service: Addresses, http: httpx2.Client, dtype: str, way: Way
) -> None:
    profile = "reference" if dtype == "float64" else "ascend910b"
    with Client(service.grpc) as client, client.open_session(profile) as session:
        for form, call in ten_calls(dtype):
            right = session.run(call)._asdict()
            expected = {name: array for name, array in right.items() if array is not None}
            made = model_call(call, form, profile=profile)
            document, binary = document_of(
                ModelCall(made.model, made.parameters, made.inputs, list(expected)), way
            )
            document["parameters"].pop("output_mask", None)  # the requested outputs are the mask
            kept = [one for one in document["inputs"] if one["name"] != "output_mask"]
            document["inputs"] = kept
            answer = infer(http, made.model, document, binary)
            assert answer.status_code == 200, answer.text
            found = outputs_of(answer)
            assert list(found) == list(expected)
            for name, array in expected.items():
                assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
                assert found[name].tobytes() == array.tobytes(), (form, name)


def columns_document(**parameters: object) -> dict[str, Any]:
    document, _ = document_of(model_call(COLUMNS, ""), "lists")
    document["parameters"] |= parameters
    return document


def test_a_large_tensor_behind_a_document_of_odd_length(
    service: Addresses, http: httpx2.Client
) -> None:
    columns = np.random.default_rng(7).standard_normal((4, 36, 900)).astype(np.float32)
    size = {"input_size": [32, 32], "kernel_size": [3, 3]}
    document = columns_document(**size, binary_data_output=True)
    document["inputs"] = [
        {"name": "grad_output", "datatype": "FP32", "shape": columns.shape}
        | {"parameters": {"binary_data_size": columns.nbytes}}
    ]
    document["id"] += "!" if len(json.dumps(document)) % 2 == 0 else ""
    answer = infer(http, "aclnnIm2colBackward", document, columns.tobytes())
    call = COLUMNS.__class__(
        grad_output=columns, dilation=[1, 1], padding=[0, 0], stride=[1, 1], **size
    )
    with Client(service.grpc) as client, client.open_session() as session:
        right = session.run(call).out.tobytes()
    assert answer.content[int(answer.headers[LENGTH]) :] == right
    as_text = infer(http, "aclnnIm2colBackward", columns_document(**size), b"")
    assert as_text.status_code == 400, "16 numbers are no such tensor"


def test_more_numbers_than_json_may_have_are_rejected_both_ways(http: httpx2.Client) -> None:
    many = columns_document(input_size=[100, 100], kernel_size=[1, 1], stride=[100, 100])
    many["inputs"][0] |= {"shape": [1, 1, 1], "data": [1]}
    answer = infer(http, "aclnnIm2colBackward", many)
    assert answer.status_code == 400
    assert "binary_data_output does not accept false for 10000 elements" in answer.json()["error"]
    assert infer(http, "aclnnIm2colBackward", many | {"id": ""}).status_code == 400
    many["parameters"]["binary_data_output"] = True
    assert infer(http, "aclnnIm2colBackward", many).status_code == 200
    many["inputs"][0]["data"] = [1] * 10**4
    answer = infer(http, "aclnnIm2colBackward", many)
    assert answer.status_code == 400
    assert "at most 8192 values" in answer.json()["error"]


def test_values_that_are_not_finite_travel_as_text_as_triton_writes_them(
    http: httpx2.Client,
) -> None:
    text = json.dumps(columns_document()).replace("1.0", "NaN", 1).replace("1.0", "1e999", 1)
    answer = http.post(INFER, content=text)
    values = answer.json()["outputs"][0]["data"]
    assert np.isnan(values[0])
    assert values[1] == np.inf


@pytest.mark.parametrize("model", ["aclnnIm2colBackward", "aclnnConvolution_3d"])
def test_metadata_configuration_and_index_agree(http: httpx2.Client, model: str) -> None:
    metadata = http.get(f"/v2/models/{model}").json()
    (version,) = metadata["versions"]
    for path in ("", "/config", "/ready", "/stats"):
        named = http.get(f"/v2/models/{model}{path}")
        versioned = http.get(f"/v2/models/{model}/versions/{version}{path}")
        assert (named.status_code, versioned.status_code) == (200, 200)
        assert named.content == versioned.content
    config = http.get(f"/v2/models/{model}/config").json()
    for tensors, others in (
        (metadata["inputs"], config["input"]),
        (metadata["outputs"], config["output"]),
    ):
        assert [(t["name"], f"TYPE_{t['datatype']}", t["shape"]) for t in tensors] == [
            (t["name"], t["data_type"], t["dims"]) for t in others
        ]
    index = http.post("/v2/repository/index", json={"ready": True}).json()
    assert {"name": model, "version": version, "state": "READY", "reason": ""} in index
    assert http.get("/v2").json()["name"] == "opserve"
    assert http.get("/v2/health/live").status_code == 200
    assert http.get("/v2/health/ready").status_code == 200


def test_statistics_count_what_succeeded_and_what_failed(http: httpx2.Client) -> None:
    stats = "/v2/models/aclnnIm2colBackward/stats"

    def counts() -> tuple[int, int]:
        (one,) = http.get(stats).json()["model_stats"]
        found = one["inference_stats"]
        assert one["inference_count"] == found["success"]["count"]
        return found["success"]["count"], found["fail"]["count"]

    before = counts()
    infer(http, "aclnnIm2colBackward", columns_document())
    infer(http, "aclnnIm2colBackward", columns_document(stride=[0, 0]))
    assert counts() == (before[0] + 1, before[1] + 1)
    assert len(http.get("/v2/models/stats").json()["model_stats"]) > 10


def test_what_is_not_supported_says_so(http: httpx2.Client) -> None:
    refused = 0
    for name, verb, path in every_route(session=""):
        reason = REASONS.get(name[0].upper() + name[1:])
        if not path.startswith("/v2/") or reason is None:
            continue
        answer = http.request(verb, path, content=b"{}" if verb == "POST" else None)
        assert answer.status_code == 501, path
        assert answer.json()["error"].endswith(f" is not supported: {reason}."), path
        refused += 1
    assert refused == sum(
        not (route.include_in_schema or route.name.endswith("OfVersion"))
        for route in ROUTES
        if route.path.startswith("/v2/")
    )
    for headers in ({"content-encoding": "gzip"}, {"content-encoding": "deflate"}):
        answer = http.post(INFER, content=b"", headers=headers)
        assert answer.status_code == 501
        assert "send the body without compression" in answer.json()["error"]


def wrong_documents() -> Iterator[WrongCall]:
    """Documents that no client of Triton's writes, with a part of the answer."""
    given = columns_document
    yield "attribute", given(stride="[" * 1000), b"", 400, "stride does not accept"
    yield "long list", given(stride=[1] * 99), b"", 400, "99 entries"
    yield "group", given(stride={"a": 1}), b"", 400, "stride does not accept"
    yield "integer", given(stride=[10**400, 1]), b"", 400, "stride does not accept"
    yield "profile", given(profile=["x"] * 5000), b"", 400, "profile does not accept list"
    yield "unknown", given(strides=[1, 1]), b"", 400, "parameters does not accept strides"
    yield "sequence", given(sequence_id=1), b"", 501, "sequence_id is not supported"
    many = {f"p{number}": 1 for number in range(100)}
    yield "parameters", given(**many), b"", 400, "parameters does not accept"
    lists: list[tuple[str, Any, str]] = [
        ("inputs", given()["inputs"] * 100, "at most 64"),
        ("outputs", [{"name": "out"}] * 100, "at most 64"),
        ("outputs", [{"name": "o" * 10**4}], "out"),
    ]
    for name, members, allowed in lists:
        yield f"{name} {len(members)}", given() | {name: members}, b"", 400, allowed
    yield from wrong_tensors()


def wrong_tensors() -> Iterator[WrongCall]:
    def tensor(**members: object) -> dict[str, Any]:
        document = columns_document()
        document["inputs"][0] |= members
        return document

    binary = {"data": None, "parameters": {"binary_data_size": 64}}
    memory = {"data": None, "parameters": {"shared_memory_region": "r"}}
    yield "text", tensor(data=["1"] * 16), b"", 400, "grad_output.data does not accept str"
    yield "booleans", tensor(data=[True] * 16), b"", 400, "grad_output.data does not accept bool"
    yield "fewer", tensor(data=[1] * 15), b"", 400, "grad_output does not accept 60 bytes"
    deep: list[Any] = [1]
    for _ in range(20):
        deep = [deep]
    yield "deep", tensor(data=deep), b"", 400, "grad_output.data does not accept list"
    yield "larger", tensor(data=[10**400] * 16), b"", 400, "a larger integer"
    yield "bf16", tensor(datatype="BF16"), b"", 400, "grad_output.datatype does not accept BF16"
    yield "both", tensor(parameters={"binary_data_size": 64}), b"1" * 64, 400, "accept both"
    yield "neither", tensor(data=None), b"", 400, "grad_output does not accept neither"
    yield "none behind", tensor(**binary), b"", 400, "binary_data_size does not accept 64"
    yield "behind", tensor(**binary), b"1" * 65, 400, "65 bytes behind the document"
    yield "memory", tensor(**memory), b"", 501, "shared_memory_region is not supported"
    yield "sizes", tensor(shape=[0, 2**62, 2**62], data=[]), b"", 400, "NumPy's shapes"
    yield "rank", tensor(shape=[1] * 99), b"", 400, "inputs.0.shape does not accept"
    requested = columns_document()
    requested["outputs"] = [{"name": "out", "parameters": {"classification": 3}}]
    yield "classification", requested, b"", 501, "classification is not supported"


@pytest.mark.parametrize("name", [name for name, *_ in wrong_documents()])
def test_a_wrong_call_is_rejected_with_the_reason(http: httpx2.Client, name: str) -> None:
    (found,) = [one for one in wrong_documents() if one[0] == name]
    _, document, binary, status, reason = found
    answer = infer(http, "aclnnIm2colBackward", document, binary)
    assert answer.status_code == status, answer.text
    problem = answer.json()
    assert reason in problem["error"], problem["error"]
    assert problem["error"] == problem["detail"]
    assert len(answer.content) < 3000
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("length", ["0", "x", "1" * 5000, "999", "-1", "\N{FULLWIDTH DIGIT TWO}"])
def test_a_wrong_length_of_the_document_is_rejected(http: httpx2.Client, length: str) -> None:
    headers = [(LENGTH.encode(), length.encode())]
    answer = http.post(INFER, content=b'{"id": ""}', headers=headers)
    assert answer.status_code == 400
    assert "Inference-Header-Content-Length" in answer.json()["error"]


def test_an_unknown_model_version_and_path_have_the_member_that_stock_clients_read(
    http: httpx2.Client,
) -> None:
    for path in ("/v2/models/none", "/v2/models/aclnnIm2col/versions/9/ready"):
        answer = http.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"].startswith("Request for unknown model: '")
    assert "path does not accept" in http.get("/v2/none").json()["error"]
    assert "error" not in http.get("/v1/none").json()


def test_a_body_above_the_limit_is_rejected_before_it_is_read(http: httpx2.Client) -> None:
    answer = http.post(INFER, content=bytes(5 * 2**20))
    assert answer.status_code == 413
    assert "body has more than 4194304 bytes" in answer.json()["error"]
