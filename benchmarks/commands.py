"""Rate of small commands: many in one Submit beside one per call."""

from collections.abc import Mapping

import grpc

from benchmarks.measure import seconds_of
from benchmarks.rounds import Pair
from benchmarks.subject import open_session
from opserve.v1.command_service_pb2 import Command, SubmitRequest
from opserve.v1.command_service_pb2_grpc import CommandServiceStub
from opserve.v1.memory_service_pb2 import AllocateRequest, FillRequest
from opserve.v1.memory_service_pb2_grpc import MemoryServiceStub

COMMANDS_A_BATCH = 64
BATCHES = 20
BATCHED = f"Fill, {COMMANDS_A_BATCH} in a Submit, commands/s | one in a call"
BUFFER_BYTES = 512


class Fills:
    """Fills of a small buffer.

    Args:
        channel: A channel to the service.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._session = open_session(channel)
        self._memory = MemoryServiceStub(channel)
        self._commands = CommandServiceStub(channel)
        request = AllocateRequest(session=self._session, size_bytes=BUFFER_BYTES)
        buffer = self._memory.Allocate(request).buffer
        fill = Command(fill=FillRequest(buffer=buffer, size_bytes=BUFFER_BYTES))
        self._batch = SubmitRequest(session=self._session, commands=[fill] * COMMANDS_A_BATCH)
        self._single = FillRequest(session=self._session, buffer=buffer, size_bytes=BUFFER_BYTES)

    def measure(self) -> Mapping[str, Pair]:
        single_s = seconds_of(self._fill_one_by_one)
        batched_s = seconds_of(self._fill_in_batches)
        commands = BATCHES * COMMANDS_A_BATCH
        return {BATCHED: Pair(subject=commands / batched_s, yardstick=COMMANDS_A_BATCH / single_s)}

    def _fill_one_by_one(self) -> None:
        for _ in range(COMMANDS_A_BATCH):
            self._memory.Fill(self._single)

    def _fill_in_batches(self) -> None:
        for _ in range(BATCHES):
            results = self._commands.Submit(self._batch).results
            assert len(results) == COMMANDS_A_BATCH
            assert results[-1].HasField("fill")
