"""A call of a client while it is at work, and afterwards."""

from opserve_server.calls import ObservedCall
from opserve_server.core.observations import Call, CallBegan, CallEnded, Observation


def test_metadata_of_a_call_reaches_its_observer_and_is_not_kept() -> None:
    seen: list[dict[str, str | bytes]] = []

    def observe(observation: Observation) -> None:
        assert isinstance(observation, CallBegan | CallEnded)
        seen.append(dict(observation.call.headers))

    headers = {"traceparent": "00-1-2-01", "x-large": "a" * 2**16}
    call = Call(api="rest", method="Execute", request_id="1", headers=headers)
    with ObservedCall(call, observe):
        pass
    assert seen == [headers, headers]
    assert not call.headers, "queued work keeps its call"
