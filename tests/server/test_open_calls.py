"""Places of open calls: bounded per tenant and for unauthenticated callers, ended with a reason."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace

import pytest

from opserve_kernels.status import Status
from opserve_server.core.accounts import BYTES_IN_FLIGHT, Accounts
from opserve_server.core.errors import (
    LimitExceeded,
    OpserveError,
    QuotaExceeded,
    Unavailable,
)
from opserve_server.core.tenants import Quota, Resource, Tenant
from opserve_server.open_calls import CallLimits, CallSlot, OpenCalls
from simulation.virtual_time import VirtualTimeLoop

MESSAGE = 1000
ARRIVING = 3 * MESSAGE
"""A message of a tenant while it arrives, with its frames."""
SMALL = 64 * 2**10
"""A message that a call beyond the quota may keep."""
LIMITS = CallLimits(
    of_tenant=3,
    unauthenticated_calls=8,
    unauthenticated_bytes=16 * MESSAGE,
    message_bytes=MESSAGE,
    silence_s=30.0,
)


def in_virtual_time(test: Callable[[], Coroutine[None, None, None]]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(test())


def open_calls(**quota: int) -> tuple[OpenCalls, Accounts]:
    accounts = Accounts()
    lab = Tenant(name="lab", quota=Quota(**quota))
    accounts.renew([lab, Tenant(name="mill")])
    return OpenCalls(accounts, LIMITS), accounts


async def forever() -> bytes:
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


class Caller:
    """A call that receives a message, and its outcome."""

    def __init__(self, place: CallSlot, receive: Callable[[], Awaitable[bytes]] = forever) -> None:
        self.task = asyncio.ensure_future(self._run(place, receive))

    async def _run(
        self, place: CallSlot, receive: Callable[[], Awaitable[bytes]]
    ) -> OpserveError | None:
        try:
            with place:
                await place.received(receive)
        except OpserveError as error:
            return error
        finally:
            place.leave()
        return None

    @property
    def open(self) -> bool:
        return not self.task.done()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_eldest_watch_of_the_address_with_most_of_them_makes_room() -> None:
    async def test() -> None:
        calls, _ = open_calls()

        async def watch(peer: str) -> asyncio.Task[OpserveError | None]:
            async def is_watch(place: CallSlot) -> OpserveError | None:
                try:
                    with place:
                        await forever()
                except OpserveError as error:
                    return error
                finally:
                    place.leave()
                return None

            task = asyncio.ensure_future(is_watch(calls.take_unauthenticated(peer, is_watch=True)))
            await turns()
            return task

        watches = [await watch(peer) for peer in ("a", "b", "b", "b", "c")]
        assert [watch.done() for watch in watches] == [False, True, False, False, False]
        assert isinstance(watches[1].result(), LimitExceeded)
        probe = Caller(calls.take_unauthenticated("b", is_watch=False))
        await turns()
        assert probe.open, "watches take no place of a probe"

    in_virtual_time(test)


def test_unauthenticated_messages_under_way_fit_their_bytes() -> None:
    async def test() -> None:
        calls, _ = open_calls()
        callers = list[Caller]()
        for _ in range(4):
            callers.append(Caller(calls.take_unauthenticated("a", is_watch=False)))
            await turns()
        assert [caller.open for caller in callers] == [False, False, True, True]

    in_virtual_time(test)


def test_all_unauthenticated_callers_together_keep_no_more_than_their_bytes() -> None:
    async def test() -> None:
        calls, _ = open_calls()
        place = calls.take_unauthenticated("a", is_watch=False)
        place.keep(MESSAGE // 4)
        with pytest.raises(LimitExceeded, match=f"{MESSAGE // 4} are the limit without a key"):
            place.keep(MESSAGE // 4 + 1)

    in_virtual_time(test)


def test_a_tenant_without_a_free_place_is_refused_and_another_is_not() -> None:
    async def test() -> None:
        calls, _ = open_calls()
        places = [calls.take("lab") for _ in range(3)]
        with pytest.raises(LimitExceeded, match="3 calls in progress, its limit"):
            calls.take("lab")
        calls.take("mill")
        calls.take_unauthenticated("a", is_watch=False)
        places[0].leave()
        calls.take("lab")

    in_virtual_time(test)


def test_a_call_whose_message_does_not_arrive_ends() -> None:
    async def test() -> None:
        calls, accounts = open_calls()
        callers = [
            Caller(calls.take("lab")),
            Caller(calls.take_unauthenticated("a", is_watch=True)),
        ]
        await asyncio.sleep(LIMITS.silence_s - 1)
        assert all(caller.open for caller in callers)
        await asyncio.sleep(2)
        for caller in callers:
            error = caller.task.result()
            assert isinstance(error, LimitExceeded)
            assert error.parameter == "message"
        assert accounts.of("lab").use(Resource.BYTES_IN_FLIGHT) == 0

    in_virtual_time(test)


def test_a_message_under_way_counts_and_beyond_the_quota_one_arrives_at_a_time() -> None:
    async def test() -> None:
        calls, accounts = open_calls(bytes_in_flight=ARRIVING + MESSAGE)
        account, came = accounts.of("lab"), list[int]()

        async def arrives(number: int) -> bytes:
            came.append(number)
            return await forever()

        callers = [Caller(calls.take("lab"), lambda n=n: arrives(n)) for n in range(3)]  # type: ignore[misc]  # a number
        await turns()
        assert account.use(Resource.BYTES_IN_FLIGHT) == ARRIVING
        assert came == [0, 1], "one that fits, and one beyond"
        callers[1].task.cancel()
        await turns()
        assert came == [0, 1, 2]
        for caller in callers:
            caller.task.cancel()
        await turns()
        assert account.use(Resource.BYTES_IN_FLIGHT) == 0

    in_virtual_time(test)


def test_bytes_that_a_call_keeps_count_until_it_ends() -> None:
    async def test() -> None:
        calls, accounts = open_calls()
        place = calls.take("lab")
        place.keep(77)
        assert accounts.of("lab").use(Resource.BYTES_IN_FLIGHT) == 77
        place.leave()
        assert accounts.of("lab").use(Resource.BYTES_IN_FLIGHT) == 0

    in_virtual_time(test)


def test_bytes_that_calls_of_a_tenant_keep_stay_within_its_quota() -> None:
    async def test() -> None:
        calls, accounts = open_calls(bytes_in_flight=4 * SMALL)
        kept = [calls.take("lab") for _ in range(3)]
        kept[0].keep(3 * SMALL)
        with pytest.raises(QuotaExceeded) as refused:
            kept[1].keep(SMALL + 1)
        assert (refused.value.limit, refused.value.use) == (4 * SMALL, 3 * SMALL)
        kept[1].keep(SMALL)
        kept[2].keep(SMALL)  # so small a message may free something
        assert accounts.of("lab").use(Resource.BYTES_IN_FLIGHT) == 5 * SMALL
        kept[0].keep(2 * SMALL)

    in_virtual_time(test)


def test_a_message_that_stalls_beyond_the_quota_ends_where_others_wait() -> None:
    async def test() -> None:
        calls, _ = open_calls(bytes_in_flight=0)

        async def at_once() -> bytes:
            return b""

        stalled = Caller(calls.take("lab"))
        await asyncio.sleep(LIMITS.silence_s - 10)
        assert stalled.open, "nobody waits for it"
        others = [Caller(calls.take("lab"), at_once) for _ in range(2)]
        await asyncio.sleep(2)
        assert stalled.open
        await asyncio.sleep(2)
        assert [other.task.result() for other in others] == [None, None]
        assert isinstance(stalled.task.result(), QuotaExceeded)

    in_virtual_time(test)


def test_a_wait_to_receive_beyond_the_quota_ends_as_the_quotas_refusal() -> None:
    async def test() -> None:
        accounts = Accounts()
        accounts.renew([Tenant(name="lab", quota=Quota(bytes_in_flight=0))])
        calls = OpenCalls(accounts, replace(LIMITS, of_tenant=15))
        stalled = [Caller(calls.take("lab")) for _ in range(15)]
        await asyncio.sleep(LIMITS.silence_s + 1)
        assert {type(one.task.result()) for one in stalled} == {QuotaExceeded}

    in_virtual_time(test)


def test_unauthenticated_calls_count_until_they_end_and_leave_places_for_other_addresses() -> None:
    async def test() -> None:
        calls, _ = open_calls()

        def answered(peer: str) -> CallSlot:
            with calls.take_unauthenticated(peer, is_watch=False) as place:
                return place

        def until_refused(peer: str) -> list[CallSlot]:
            places = list[CallSlot]()
            with suppress(LimitExceeded):
                while True:
                    places.append(answered(peer))
            return places

        unread = until_refused("a")
        assert len(unread) == LIMITS.unauthenticated_calls
        assert len(until_refused("b")) == LIMITS.unauthenticated_calls // 2
        answered("c")
        with pytest.raises(LimitExceeded, match="This address has 8 calls without a key"):
            answered("a")
        for place in unread:
            place.leave()
        answered("a")

    in_virtual_time(test)


def test_a_call_that_sends_ends_behind_what_it_sends() -> None:
    async def test() -> None:
        calls, _ = open_calls()
        read = asyncio.get_running_loop().create_future()

        async def sends(place: CallSlot) -> None:
            with place:
                await place.sent(read)

        place = calls.take_unauthenticated("a", is_watch=True)
        sending = asyncio.ensure_future(sends(place))
        await turns()
        place.end(LimitExceeded(Status.ACL_ERROR_RT_OVER_LIMIT, "one more"))
        await turns()
        assert not sending.done()
        read.set_result(None)
        await turns()
        assert isinstance(sending.exception(), LimitExceeded)
        assert sending.cancelling() == 0

    in_virtual_time(test)


def test_the_end_waits_for_work_and_not_for_unread_answers() -> None:
    async def test() -> None:
        calls, _ = open_calls()
        loop = asyncio.get_running_loop()
        places = calls.take("lab"), calls.take_unauthenticated("a", is_watch=False)
        for place in places:
            with place:
                pass
        watch = Caller(calls.take_unauthenticated("b", is_watch=True))
        await turns()
        began_s = loop.time()
        await calls.end(within_s=10.0)
        assert isinstance(watch.task.result(), Unavailable)
        assert loop.time() - began_s < 10

    in_virtual_time(test)


def test_bytes_in_flight_have_a_limit_where_the_quota_names_none() -> None:
    for name, limit in (("lab", 5), ("mill", BYTES_IN_FLIGHT)):
        _, accounts = open_calls(bytes_in_flight=5)
        assert accounts.of(name).counters[Resource.BYTES_IN_FLIGHT].limit == limit


def test_at_the_end_each_call_is_answered_that_the_service_ends() -> None:
    async def test() -> None:
        calls, _ = open_calls()
        waiting = [
            Caller(calls.take("lab")),
            Caller(calls.take_unauthenticated("a", is_watch=False)),
        ]
        soon = asyncio.get_running_loop().create_future()
        short = Caller(calls.take("lab"), lambda: soon)
        ending = asyncio.ensure_future(calls.end(within_s=5.0))
        await turns()
        with pytest.raises(Unavailable):
            calls.take("mill")
        soon.set_result(b"")
        await turns()
        assert short.task.result() is None, "a call that ends in time is answered"
        await ending
        for caller in waiting:
            error = caller.task.result()
            assert isinstance(error, Unavailable)
            assert error.status.value == 507901

    in_virtual_time(test)


def test_a_call_whose_answer_has_begun_is_not_ended() -> None:
    async def scenario() -> None:
        calls, _ = open_calls()
        place, ended = calls.take("lab"), list[str]()

        async def answer() -> None:
            with place:
                place.begin_answer()
                await asyncio.sleep(1.0)
                ended.append("whole")
            place.leave()

        answering = asyncio.ensure_future(answer())
        await turns()
        await calls.end(within_s=0.5)
        await answering
        assert ended == ["whole"]

    in_virtual_time(scenario)
