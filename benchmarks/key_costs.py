"""What a key costs each call, how fast a quota refuses, and how two weights share a device."""

from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import grpc

from benchmarks.measure import percentile, seconds_of
from benchmarks.rounds import Pair
from benchmarks.subject import COMMANDS_AT_ONCE, LEASE_S, SHAPES, arguments
from opserve.v1.command_service_pb2 import Command, SubmitRequest
from opserve.v1.command_service_pb2_grpc import CommandServiceStub
from opserve.v1.operator_service_pb2 import DestroyExecutorRequest, GetWorkspaceSizeRequest
from opserve.v1.operator_service_pb2_grpc import OperatorServiceStub
from opserve.v1.session_service_pb2 import OpenSessionRequest
from opserve.v1.session_service_pb2_grpc import SessionServiceStub
from opserve.v1.stream_service_pb2 import QueryStreamRequest
from opserve.v1.stream_service_pb2_grpc import StreamServiceStub

CALLS = 400
AT_ONCE = 8
BEYOND = grpc.StatusCode.RESOURCE_EXHAUSTED
KEY_P50 = "GetWorkspaceSize p50 with a key, ms | without"
REFUSALS = f"calls that a quota refuses, {AT_ONCE} at once, calls/s | calls that none refuses"


class Caller:
    """Small calls over a channel of its own, with a key or without.

    Args:
        address: Of a gRPC API.
        key: Says who calls; None where nobody asks.
    """

    def __init__(self, address: str, key: str | None = None) -> None:
        self._channel = grpc.insecure_channel(address)
        self._metadata = None if key is None else (("authorization", f"Bearer {key}"),)
        opened = SessionServiceStub(self._channel).OpenSession(
            OpenSessionRequest(lease_s=LEASE_S), metadata=self._metadata
        )
        self._session = opened.session
        self._operators = OperatorServiceStub(self._channel)
        self._streams = StreamServiceStub(self._channel)
        self._plan = GetWorkspaceSizeRequest(
            session=self._session, convolution_backward=arguments(dict.fromkeys(SHAPES, 0))
        )
        self._query = QueryStreamRequest(session=self._session)
        self._executors: list[int] = []

    def close(self) -> None:
        self._channel.close()

    def plan(self) -> None:
        """Phase one of a small convolution."""
        answer = self._operators.GetWorkspaceSize(self._plan, metadata=self._metadata)
        self._executors.append(answer.executor)

    def forget_plans(self) -> None:
        """Ends the executors that plan made."""
        while self._executors:
            some = self._executors[:COMMANDS_AT_ONCE]
            del self._executors[: len(some)]
            ends = [
                Command(destroy_executor=DestroyExecutorRequest(executor=executor))
                for executor in some
            ]
            request = SubmitRequest(session=self._session, commands=ends)
            CommandServiceStub(self._channel).Submit(request, metadata=self._metadata)

    def is_refused(self) -> bool:
        """Whether a call is beyond the quota."""
        try:
            self._streams.QueryStream(self._query, metadata=self._metadata)
        except grpc.RpcError as error:
            if isinstance(error, grpc.Call) and error.code() is BEYOND:
                return True
            raise
        return False


@dataclass(frozen=True, slots=True)
class Doors:
    """Callers of a service with keys, and one of a service without.

    Attributes:
        keyless: Who needs no key.
        keyed: Who has one, and no quota.
        refused: Who has one, and a quota that every call exceeds.
    """

    keyless: Caller
    keyed: Caller
    refused: Caller

    def measure(self) -> Mapping[str, Pair]:
        return self._cost_of_a_key() | self._rate_of_refusals()

    def _cost_of_a_key(self) -> dict[str, Pair]:
        """Call beside call, so that both meet the same moments of the machine."""
        both = [(seconds_of(self.keyed.plan), seconds_of(self.keyless.plan)) for _ in range(CALLS)]
        self.keyed.forget_plans()
        self.keyless.forget_plans()
        with_key, without = (percentile(times, 50) * 1e3 for times in zip(*both, strict=True))
        return {KEY_P50: Pair(subject=with_key, yardstick=without)}

    def _rate_of_refusals(self) -> dict[str, Pair]:
        refused = _rate(self.refused.is_refused, outcome=True)
        admitted = _rate(self.keyed.is_refused, outcome=False)
        return {REFUSALS: Pair(subject=refused, yardstick=admitted)}


def _rate(call: Callable[[], bool], *, outcome: bool) -> float:
    """Calls a second of several threads that have an outcome, as almost all of them do."""

    def all_calls() -> None:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            found = [threads.submit(call) for _ in range(CALLS)]
        counted.extend(one.result() for one in found)

    counted: list[bool] = []
    seconds = seconds_of(all_calls)
    assert counted.count(outcome) > 0.9 * CALLS, "the quota stands between them"
    return counted.count(outcome) / seconds


@contextmanager
def doors(keyless: str, keyed: str, *, key: str, refused_key: str) -> Generator[Doors]:
    """Callers of two services, by the addresses of their gRPC APIs."""
    with ExitStack() as stack:
        callers = (Caller(keyless), Caller(keyed, key), Caller(keyed, refused_key))
        for caller in callers:
            stack.callback(caller.close)
        yield Doors(*callers)
