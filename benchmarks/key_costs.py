"""Cost of an API key for a call, and the rate at which a quota rejects calls."""

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
REJECTIONS = f"calls that a quota rejects, {AT_ONCE} at once, calls/s | admitted calls"


class Caller:
    """Small calls over a separate channel, with or without an API key.

    Args:
        address: Address of a gRPC API.
        key: API key; None for a service without keys.
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
        """Plans a small convolution."""
        answer = self._operators.GetWorkspaceSize(self._plan, metadata=self._metadata)
        self._executors.append(answer.executor)

    def destroy_plans(self) -> None:
        """Destroys the executors of the plans."""
        while self._executors:
            some = self._executors[:COMMANDS_AT_ONCE]
            del self._executors[: len(some)]
            ends = [
                Command(destroy_executor=DestroyExecutorRequest(executor=executor))
                for executor in some
            ]
            request = SubmitRequest(session=self._session, commands=ends)
            CommandServiceStub(self._channel).Submit(request, metadata=self._metadata)

    def is_rejected(self) -> bool:
        """Makes a call; returns whether it exceeds the quota."""
        try:
            self._streams.QueryStream(self._query, metadata=self._metadata)
        except grpc.RpcError as error:
            if isinstance(error, grpc.Call) and error.code() is BEYOND:
                return True
            raise
        return False


@dataclass(frozen=True, slots=True)
class KeyCosts:
    """Callers of a service with keys and of a service without keys, and their measurements.

    Attributes:
        without_key: Caller of the service without keys.
        with_key: Caller with a key and without a quota.
        over_quota: Caller with a key and with a quota that every call exceeds.
    """

    without_key: Caller
    with_key: Caller
    over_quota: Caller

    def measure(self) -> Mapping[str, Pair]:
        return self._cost_of_a_key() | self._rate_of_rejections()

    def _cost_of_a_key(self) -> dict[str, Pair]:
        """Alternates the calls, so that other load of the machine affects both."""
        callers = (self.with_key, self.without_key)
        both = [[seconds_of(caller.plan) for caller in callers] for _ in range(CALLS)]
        for caller in callers:
            caller.destroy_plans()
        with_key, without = (percentile(times, 50) * 1e3 for times in zip(*both, strict=True))
        return {KEY_P50: Pair(subject=with_key, yardstick=without)}

    def _rate_of_rejections(self) -> dict[str, Pair]:
        rejected = _rate(self.over_quota.is_rejected, outcome=True)
        admitted = _rate(self.with_key.is_rejected, outcome=False)
        return {REJECTIONS: Pair(subject=rejected, yardstick=admitted)}


def _rate(call: Callable[[], bool], *, outcome: bool) -> float:
    """Returns the calls per second of several threads with an outcome that almost all have."""

    def all_calls() -> None:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            found = [threads.submit(call) for _ in range(CALLS)]
        counted.extend(one.result() for one in found)

    counted: list[bool] = []
    seconds = seconds_of(all_calls)
    assert counted.count(outcome) > 0.9 * CALLS, "calls have the outcome that the quota determines"
    return counted.count(outcome) / seconds


@contextmanager
def key_costs(
    without_keys: str, with_keys: str, *, key: str, over_quota_key: str
) -> Generator[KeyCosts]:
    """Connects callers to two services.

    Args:
        without_keys: Address of the gRPC API of a service without keys.
        with_keys: Address of the gRPC API of a service with keys.
        key: Key without a quota.
        over_quota_key: Key with a quota that every call exceeds.
    """
    with ExitStack() as stack:
        callers = (Caller(without_keys), Caller(with_keys, key), Caller(with_keys, over_quota_key))
        for caller in callers:
            stack.callback(caller.close)
        yield KeyCosts(*callers)
