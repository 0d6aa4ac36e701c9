"""A call of a client while it is at work, and afterwards."""

import re
from pathlib import Path

from opserve_kernels.errors import shortened
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


def test_a_text_of_an_error_has_as_many_characters_as_the_page_says() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/rest.md").read_text()
    [most] = map(int, re.findall(r"A text of an error has at most (\d+) characters", page))

    assert shortened("é" * most) == "é" * most
    assert shortened("é" * (most + 1)) == "é" * (most - 1) + "…"
