"""Connect's own client for Node.js, @connectrpc/connect-node, calls each kind of RPC."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

from opserve_client.private_service import Addresses
from server.entry_points import every_rpc
from system.npm import NODE, NPM, run

PROGRAM = Path(__file__).parent / "connect_node"
pytestmark = [pytest.mark.system, pytest.mark.slow]


def in_order(file: FileDescriptor) -> Iterator[FileDescriptor]:
    """A file behind those that it imports."""
    for imported in file.dependencies:
        yield from in_order(imported)
    yield file


def name_in_json(messages: Iterable[DescriptorProto]) -> None:
    """Sets the JSON names of fields, which protoc leaves out of generated code."""
    for message in messages:
        for field in message.field:
            first, *others = field.name.split("_")
            field.json_name = first + "".join(map(str.capitalize, others))
        name_in_json(message.nested_type)


def write_descriptors(path: Path) -> None:
    files = {one.name: one for rpc in every_rpc() for one in in_order(rpc.input_type.file)}
    descriptors = FileDescriptorSet()
    for file in files.values():
        described = descriptors.file.add()
        file.CopyToProto(described)
        name_in_json(described.message_type)
    path.write_bytes(descriptors.SerializeToString())


def test_connect_node_calls_each_kind_of_rpc(service: Addresses, tmp_path: Path) -> None:
    shutil.copytree(PROGRAM, tmp_path, dirs_exist_ok=True)
    write_descriptors(tmp_path / "descriptors.binpb")
    run(NODE, NPM, "install", "--no-package-lock", folder=tmp_path)
    calls = run(NODE, "calls.mjs", service.rest, "descriptors.binpb", folder=tmp_path)
    assert calls == "protobuf: done\nJSON: done\n"
