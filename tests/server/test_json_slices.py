"""Large JSON documents are read in parts, each with few values."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from opserve.v1.command_service_pb2 import Command as WireCommand
from opserve.v1.memory_service_pb2 import FillRequest
from opserve_server.core.commands import Fill
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.turns import ITEMS_A_TURN
from opserve_server.grpc_api.convert import batch_of
from opserve_server.json_slices import VALUES_AT_ONCE, VALUES_LIMIT, parts_of
from opserve_server.rest_api import models
from opserve_server.rest_api.batch import commands_in
from opserve_server.rest_api.models import parse
from server.turns import Turns

TRICKY = 'a "list": [1, {2}], \\ and \\" in a text'


async def parts(document: object, member: str = "list") -> list[bytes]:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return [part async for part in parts_of(text, member)]


def joined(found: list[bytes]) -> Any:
    first, *others = [json.loads(part) for part in found]
    for other in others:
        assert list(other) == ["list"]
        first["list"] += other["list"]
    return first


@pytest.mark.parametrize("count", [0, 1, 100, 400, 10_000])
async def test_parts_have_together_what_the_document_has(count: int) -> None:
    element = {"id": TRICKY, "inner": {"list": [1, 2, TRICKY]}, "n": None}
    document = {
        TRICKY: [1, {"list": [3]}],
        "list": [element | {"number": number} for number in range(count)],
        "behind": {"list": [TRICKY]},
        "text": "list",
    }
    found = await parts(document)
    assert joined(found) == document
    assert max(part.count(b",") for part in found) < VALUES_AT_ONCE
    assert (len(found) == 1) == (count <= 100)


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


async def test_an_empty_element_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="not JSON"):
        await parts(b'{"list":[' + b"1," * (4 * 2049) + b"]}")


async def test_a_batch_over_rest_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def parsed(model: type[BaseModel], document: bytes, **others: Any) -> BaseModel:
        read.append(document.count(b","))
        return parse(model, document, **others)

    monkeypatch.setattr(models, "parse", parsed)
    entry = {"fill": {"buffer": 1, "offset": 0, "size_bytes": 1, "value": 0}}
    turns = Turns()
    commands = await commands_in(json.dumps({"commands": [entry] * 16_000}).encode())
    assert [command for _, command in commands] == [Fill(buffer=1, size_bytes=1)] * 16_000
    assert max(read) < VALUES_AT_ONCE
    assert turns.count >= 16_000 / ITEMS_A_TURN
    wrong = {"commands": [entry] * 15_000 + [{"fill": {"buffer": "x"}}]}
    with pytest.raises(InvalidArgument, match=r"commands\.15000\.fill\.buffer"):
        await commands_in(json.dumps(wrong).encode())
    with pytest.raises(InvalidArgument, match="at most 16384"):
        await commands_in(json.dumps({"commands": [entry] * 17_000}).encode())


async def test_commands_of_a_message_are_converted_in_turns() -> None:
    turns = Turns()
    messages = [WireCommand(fill=FillRequest(buffer=1))] * 1000
    assert len(await batch_of(messages, session="", request_id="")) == 1000
    assert turns.count >= 1000 // ITEMS_A_TURN
