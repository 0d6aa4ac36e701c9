"""Large JSON documents are read in parts, each with few values."""

import json
import re
from collections import Counter
from typing import Any

import pytest
from pydantic import BaseModel

from opserve.v1.command_service_pb2 import Command as WireCommand
from opserve.v1.memory_service_pb2 import FillRequest
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.memory_commands import Fill
from opserve_server.core.time_slices import ITEMS_PER_SLICE
from opserve_server.grpc_api.convert import batch_of
from opserve_server.json_slices import BYTES_AT_ONCE, VALUES_AT_ONCE, VALUES_LIMIT, parts_of
from opserve_server.rest_api.batch import SubmitBody, commands_in
from opserve_server.rest_api.models import parse
from server.loop_iterations import LoopIterations

TRICKY = 'a "list": [1, {2}], \\ and \\" in a text'


async def parts(document: object, member: str = "list") -> list[bytes]:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return [part async for part in parts_of(text, member)]


def values_in(document: object) -> int:
    """Commas, colons and opening brackets of a document outside of its texts."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return len(re.findall(rb"[,:\[{]", re.sub(rb'"(?:[^"\\]|\\.)*"', b"", text)))


def joined(found: list[bytes]) -> Any:
    first, *others = [json.loads(part) for part in found]
    for other in others:
        assert list(other) == ["list"]
        first["list"] += other["list"]
    return first


@pytest.mark.parametrize("count", [0, 1, 50, 400, 10_000])
async def test_parts_together_equal_the_document(count: int) -> None:
    element = {"id": TRICKY, "inner": {"list": [1, 2, TRICKY]}, "n": None}
    document = {
        TRICKY: [1, {"list": [3]}],
        "list": [element | {"number": number} for number in range(count)],
        "behind": {"list": [TRICKY]},
        "text": "list",
    }
    found = await parts(document)
    assert joined(found) == document
    assert max(map(values_in, found)) <= VALUES_AT_ONCE
    assert (len(found) == 1) == (count <= 50)


@pytest.mark.parametrize(
    "document",
    [
        {"list": [1] * (VALUES_LIMIT + 1)},
        {"list": [[1] * (VALUES_AT_ONCE + 1)]},
        {"other": [1] * (VALUES_AT_ONCE + 1)},
        {"list": [1], "other": [1] * (VALUES_AT_ONCE + 1)},
        [1] * (VALUES_AT_ONCE + 1),
        b'{"list":[' + b"1," * (VALUES_AT_ONCE + 1),
        b'{"list' + b"," * (VALUES_AT_ONCE + 1),
        b'"' + b"," * (VALUES_AT_ONCE + 1),
        b"]" * 9 + b"," * (VALUES_AT_ONCE + 1),
    ],
    ids=lambda document: str(document)[:12],
)
async def test_too_many_values_outside_the_list_or_in_one_element_are_refused(
    document: object,
) -> None:
    with pytest.raises(InvalidArgument, match="values"):
        await parts(document)


@pytest.mark.parametrize(
    "document",
    [
        {"other": "a" * 2**22},
        {"list": ["a" * BYTES_AT_ONCE]},
        {"list": ['\\"' * BYTES_AT_ONCE]},
        b'{"list":[' + b" " * 2**22,
        b"[" + b"1" * BYTES_AT_ONCE + b"]",
    ],
    ids=lambda document: str(document)[:12],
)
async def test_too_many_bytes_outside_the_list_or_in_one_element_are_refused(
    document: object,
) -> None:
    with pytest.raises(InvalidArgument, match=f"bytes; it accepts at most {BYTES_AT_ONCE} bytes"):
        await parts(document)


async def test_elements_that_are_long_texts_are_read_in_parts() -> None:
    document = {"list": ['"' + "," * 150_000] * 25}
    iterations = LoopIterations()
    found = await parts(document)
    assert joined(found) == document
    assert max(map(len, found)) <= BYTES_AT_ONCE
    assert iterations.count >= 25 - 1


async def test_a_part_of_a_text_is_no_value() -> None:
    document = {"list": [",:[{" * VALUES_AT_ONCE]}
    assert joined(await parts(document)) == document


def test_a_body_without_a_list_has_a_limit_on_its_bytes() -> None:
    with pytest.raises(
        InvalidArgument, match=f"body does not accept .* at most {BYTES_AT_ONCE} bytes"
    ):
        parse(SubmitBody, b" " * (BYTES_AT_ONCE + 1))


async def test_an_empty_element_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="not JSON"):
        await parts(b'{"list":[' + b"1," * (VALUES_AT_ONCE // 4 + 1) + b"]}")


FILL = {"fill": {"buffer": 1, "offset": 0, "size_bytes": 1, "value": 0}}


@pytest.mark.parametrize(
    ("entry", "count"),
    [
        (FILL, 16_000),
        ({"free": {"buffer": 1}}, 2_000),
        ({"free": {"buffer": 1}}, 14_000),
        ({"get_workspace_size": {"im2col_backward": {}}}, 8_000),
        ({"get_workspace_size": {"convolution_backward": {"input": {}}}}, 8_000),
    ],
    ids=str,
)
async def test_a_batch_over_rest_is_read_a_few_values_in_each_turn(
    monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any], count: int
) -> None:
    read = Counter[int]()
    validate = SubmitBody.model_validate_json

    def validated(document: bytes) -> BaseModel:
        read[iterations.count] += values_in(document)
        return validate(document)

    monkeypatch.setattr(SubmitBody, "model_validate_json", validated)
    iterations = LoopIterations()
    commands = await commands_in(json.dumps({"commands": [entry] * count}).encode())
    assert len(commands) == count
    assert max(read.values()) <= VALUES_AT_ONCE // 2
    assert iterations.count >= count / ITEMS_PER_SLICE


async def test_commands_of_all_parts_are_in_order_and_counted() -> None:
    body = json.dumps({"commands": [FILL] * 16_000}).encode()
    assert [one for _, one in await commands_in(body)] == [Fill(buffer=1, size_bytes=1)] * 16_000
    wrong = {"commands": [FILL] * 15_000 + [{"fill": {"buffer": "x"}}]}
    with pytest.raises(InvalidArgument, match=r"commands\.15000\.fill\.buffer"):
        await commands_in(json.dumps(wrong).encode())
    with pytest.raises(InvalidArgument, match="at most 16384"):
        await commands_in(json.dumps({"commands": [FILL] * 17_000}).encode())


async def test_commands_of_a_message_are_converted_in_turns() -> None:
    iterations = LoopIterations()
    messages = [WireCommand(fill=FillRequest(buffer=1))] * 1000
    assert len(await batch_of(messages, session="", request_id="")) == 1000
    assert iterations.count >= 1000 // ITEMS_PER_SLICE
