"""A restarted service: calls on arrays continue, and other calls raise an error."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message

from client.fake_service import FakeService, refusal
from client.samples import columns, convolution, numbers
from opserve.v1 import session_service_pb2 as session_pb2
from opserve_client import (
    AsyncClient,
    Client,
    DeconvGradFilter,
    OpserveError,
    ServiceUnreachable,
    Session,
    SessionLost,
)
from opserve_client.conform.on_device import plan_on, run_on
from opserve_client.conform.targets.device import SessionOptions, Sessions
from opserve_client.recovery import LONGEST_PAUSE_S, RECOVERY_S
from opserve_client.transports import AsyncMemoryTransport, MemoryTransport
from opserve_client.wire.methods import Method
from opserve_kernels.cases.arrays import arrays_of
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.refusals.rows import refusals_of
from opserve_kernels.conformance.target import Broken, Ran, Refused
from opserve_kernels.operators.im2col_backward.cases.calls import FoldCall

LARGE = convolution(input=numbers(2, 3, 100, 100), grad_output=numbers(2, 4, 100, 100))


@pytest.mark.parametrize("call", [convolution(), LARGE], ids=["at once", "in steps"])
def test_a_call_on_arrays_continues_after_a_restart(
    session: Session, fake: FakeService, call: Any
) -> None:
    session.run(call)
    fake.restart()
    result = session.run(call)
    np.testing.assert_array_equal(result.grad_input, call.input)
    assert (session.name, fake.buffers, fake.executors) == ("5e551", {}, {})


class KilledOnce:
    """A connection to a service that is killed at the first call of a method, and restarted."""

    def __init__(self, fake: FakeService, method: str) -> None:
        self._fake, self._deadly = fake, method

    def __call__(self, method: Method[Any, Any], request: Message) -> Message:
        if method.rpc.endswith(f"/{self._deadly}"):
            self._deadly = "none"
            self._fake.restart()
            raise refusal(507901, "connection", "broken")
        return self._fake(method, request)


@pytest.mark.parametrize("method", ["Submit", "Write", "Read"])
def test_a_restart_in_the_middle_of_a_call_repeats_the_whole_call(
    fake: FakeService, method: str
) -> None:
    transport = MemoryTransport(KilledOnce(fake, method))
    client = Client(transport=transport, sleep=lambda _: None)
    with client, client.open_session() as session:
        result = session.run(LARGE)
    np.testing.assert_array_equal(result.grad_input, LARGE.input)
    assert len(fake.openings) == 2
    assert (fake.buffers, fake.executors) == ({}, {})


def test_a_session_is_reopened_with_its_first_options(client: Client, fake: FakeService) -> None:
    with client.open_session(
        "ascend910",
        lease_s=7.0,
        workspace_limit_bytes=9,
        tags=["quiet"],
        exclusive=True,
        accuracy="fast",
    ) as session:
        session.set_deterministic_level("strong")
        fake.restart()
        session.run(convolution())
        first, second = fake.openings
        first.ClearField("request_id")
        second.ClearField("request_id")
        assert first == second
        assert [level.session for level in fake.levels] == ["5e55", "5e551"]
        assert {level.level for level in fake.levels} == {session_pb2.DETERMINISTIC_LEVEL_STRONG}


Use = Callable[[Session, Any, Any], object]
USES: list[Use] = [
    lambda session, tensor, _: session.run(convolution(weight=tensor)),
    lambda session, tensor, _: session.run(convolution(grad_input=tensor)),
    lambda session, tensor, _: session.get_workspace_size(columns(grad_output=tensor)),
    lambda session, _, buffer: session.run(
        DeconvGradFilter(dy_data=None, x_data=None, temp_space=buffer)
    ),
    lambda _, tensor, __: tensor.download(),
    lambda _, __, buffer: buffer.write(b"1"),
    lambda _, __, buffer: buffer.read(),
    lambda _, __, buffer: buffer.free(),
]


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("use", USES)
def test_objects_of_a_lost_session_are_reported_as_lost(
    session: Session, fake: FakeService, use: Use, *, reopened: bool
) -> None:
    tensor, buffer = session.upload(numbers(4, 3, 3, 3)), session.allocate(8)
    fake.restart()
    if reopened:
        session.run(convolution())
    with pytest.raises(
        SessionLost, match="Its buffers, streams and queued work are gone"
    ) as raised:
        use(session, tensor, buffer)
    assert (raised.value.code, raised.value.parameter) == (107017, "session")
    assert len(fake.openings) == 1 + reopened


def test_a_session_that_was_closed_or_resumed_is_not_opened_again(
    client: Client, fake: FakeService
) -> None:
    session = client.open_session()
    session.close()
    with client.resume_session("5e55") as resumed:
        fake.restart()
        for gone in (session, resumed):
            with pytest.raises(SessionLost):
                gone.run(convolution())
    assert len(fake.openings) == 1


@pytest.mark.parametrize("noticed", ["run", "allocate"])
def test_a_session_that_was_released_is_not_opened_again(
    session: Session, fake: FakeService, noticed: str
) -> None:
    fake.release()
    if noticed == "allocate":
        with pytest.raises(SessionLost):
            session.allocate(8)
    for _ in range(2):
        with pytest.raises(SessionLost, match="has ended: it was released") as raised:
            session.run(convolution())
        assert raised.value.ended == "it was released"
    assert len(fake.openings) == 1


def test_conform_ends_with_its_session_that_was_released(client: Client, fake: FakeService) -> None:
    sessions = Sessions(client, SessionOptions())
    sessions.on("ascend910b")
    fake.release()
    with pytest.raises(SessionLost, match="it was released"):
        sessions.run("ascend910b", lambda session: session.allocate(8))
    assert len(fake.openings) == 1
    sessions.close()


def test_a_service_that_stays_away_is_given_up_after_the_time_of_recovery(
    session: Session, fake: FakeService, pauses: list[float]
) -> None:
    fake.failures["Run"] = [refusal(507901, "service", "away") for _ in range(1000)]
    with pytest.raises(ServiceUnreachable):
        session.run(convolution())
    between_calls = [pause for place, pause in enumerate(pauses, 1) if not place % 3]
    assert RECOVERY_S <= sum(between_calls) <= RECOVERY_S + LONGEST_PAUSE_S
    assert max(pauses) <= LONGEST_PAUSE_S


def test_a_call_that_is_refused_is_not_repeated(session: Session, fake: FakeService) -> None:
    fake.failures["get_workspace_size"] = [refusal(161002, "groups", 3)]
    with pytest.raises(OpserveError, match="161002"):
        session.run(convolution())
    assert fake.calls.count("Run") == 1


async def test_calls_that_run_at_once_open_one_session_again(fake: FakeService) -> None:
    async def no_pause(_: float) -> None:
        """Nothing to wait for."""

    async with AsyncClient(transport=AsyncMemoryTransport(fake), sleep=no_pause) as client:
        session = await client.open_session()
        fake.restart()
        calls = [convolution() for _ in range(8)]
        results = await asyncio.gather(*(session.run(call) for call in calls))
        for call, result in zip(calls, results, strict=True):
            np.testing.assert_array_equal(result.grad_input, call.input)
        assert len(fake.openings) == 2
        await session.close()


def test_conform_continues_in_a_new_session(client: Client, fake: FakeService) -> None:
    pauses: list[float] = []
    waits: list[str] = []
    options = SessionOptions(accuracy="fast")
    sessions = Sessions(client, options, on_wait=waits.append, sleep=pauses.append)

    def work(session: Session) -> str:
        session.allocate(8).write(b"12345678")
        return session.name

    assert sessions.run("ascend910b", work) == "5e55"
    fake.restart()
    assert sessions.run("ascend910b", work) == "5e551"
    assert waits == []
    fake.restart()
    fake.failures["OpenSession"] = [refusal(507901, "service", "away") for _ in range(5)]
    assert sessions.run("ascend910b", work) == "5e552"
    assert len(waits) == 1
    assert "away" in waits[0]
    assert {opening.accuracy for opening in fake.openings} == {fake.openings[0].accuracy}
    fake.failures["Allocate"] = [refusal(207001, "memory", 8)]
    with pytest.raises(OpserveError, match="207001"):
        sessions.run("ascend910b", work)
    fake.failures["Allocate"] = [refusal(507901, "service", "away") for _ in range(1000)]
    with pytest.raises(ServiceUnreachable):
        sessions.run("ascend910b", work)
    assert RECOVERY_S <= sum(pauses) <= 2 * RECOVERY_S
    sessions.close()


REFUSAL_CASE = next(iter(refusals_of("im2col_backward")))
SMALL_CASE, LARGE_CASE = (
    FoldCall(out=(1, 1, rows, 1), kernel=(1, 1)).case() for rows in (8, 2**15)
)
ATTEMPTS = 3  # of one call of a client
Try = Callable[[Session], Ran | Refused | Broken]


def run_of(case: Case) -> Try:
    storages = {name: placed.storage for name, placed in arrays_of(case, 0).items()}
    return lambda session: run_on(session, case, storages, read=["out"])


TRIES: dict[str, Try] = {
    "a refusal case": lambda session: plan_on(session, REFUSAL_CASE),
    "at once": run_of(SMALL_CASE),
    "in steps": run_of(LARGE_CASE),
}
each_try = pytest.mark.parametrize("work", TRIES.values(), ids=TRIES)


@each_try
def test_a_case_whose_batch_the_service_did_not_answer_is_tried_again(
    client: Client, fake: FakeService, work: Try
) -> None:
    sessions = Sessions(client, SessionOptions(), sleep=lambda _: None)
    fake.failures["Submit"] = [refusal(507901, "service", "away") for _ in range(ATTEMPTS)]
    assert isinstance(sessions.run("ascend910b", work), Ran)


@each_try
def test_a_case_whose_session_was_lost_is_tried_in_a_new_one(
    client: Client, fake: FakeService, work: Try
) -> None:
    sessions = Sessions(client, SessionOptions(), sleep=lambda _: None)
    sessions.on("ascend910b")
    fake.restart()
    assert isinstance(sessions.run("ascend910b", work), Ran)
    assert len(fake.openings) == 2


@each_try
@pytest.mark.parametrize("code", [507901, 207004])
def test_a_case_whose_phase_one_may_succeed_later_is_tried_again(
    client: Client, fake: FakeService, work: Try, code: int
) -> None:
    sessions = Sessions(client, SessionOptions(), sleep=lambda _: None)
    fake.failures["get_workspace_size"] = [refusal(code, "service", "drains")]
    assert isinstance(sessions.run("ascend910b", work), Ran)


@each_try
def test_a_case_that_the_rate_of_calls_stops_has_no_outcome(
    session: Session, fake: FakeService, work: Try
) -> None:
    fake.failures["Submit"] = [refusal(207012, "calls_per_s", 1)]
    with pytest.raises(OpserveError, match="calls_per_s"):
        work(session)


@each_try
def test_a_refusal_of_phase_one_is_the_outcome_of_its_case(
    session: Session, fake: FakeService, work: Try
) -> None:
    fake.failures["get_workspace_size"] = [refusal(161002, "stride", 0)]
    outcome = work(session)
    assert isinstance(outcome, Refused)
    assert outcome.code.number == 161002


def test_conform_continues_although_a_lost_session_cannot_be_closed(
    client: Client, fake: FakeService
) -> None:
    sessions = Sessions(client, SessionOptions(), sleep=lambda _: None)
    assert sessions.run("ascend910b", lambda session: session.name) == "5e55"
    fake.restart()
    fake.failures["CloseSession"] = [refusal(507901, "connection", "broken")]
    assert isinstance(sessions.run("ascend910b", TRIES["at once"]), Ran)
    assert sessions.on("ascend910b").name == "5e551"
