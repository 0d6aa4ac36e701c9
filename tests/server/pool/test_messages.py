"""Frames between the front and a worker."""

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opserve_kernels.operator import PARAMETERS_LIMIT
from opserve_server.pool.messages import (
    Attach,
    Cancel,
    Cancelled,
    Channel,
    Detach,
    Done,
    Failed,
    Flow,
    FrameError,
    KernelCall,
    Message,
    OutOfMemory,
    Ping,
    Pong,
    Ready,
    Region,
    Run,
    TimedOut,
    decode,
    encode,
)

OPERATORS = ["first", "second"]
words = st.integers(-(2**63), 2**63 - 1)
sizes = st.integers(0, 2**62)
regions = st.builds(Region, sizes, sizes, sizes)
calls = st.builds(
    KernelCall,
    operator=st.sampled_from(OPERATORS),
    shares=st.lists(sizes, max_size=8).map(tuple),
    parameters=st.lists(words, max_size=50).map(tuple),
    tensors=st.lists(regions | st.none(), max_size=6).map(tuple),
    workspace=regions | st.none(),
    cold=st.booleans(),
)
flows = st.builds(Flow, sizes, sizes)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Attach, sizes, sizes),
    st.builds(Detach, sizes),
    st.builds(Run, sizes, flows, calls),
    st.builds(Cancel, sizes),
    st.just(Ping()),
    st.just(Ready()),
    st.builds(Done, sizes, sizes, sizes, sizes, sizes),
    st.builds(Failed, sizes, sizes),
    st.builds(OutOfMemory, sizes, sizes),
    st.builds(TimedOut, sizes, sizes),
    st.builds(Cancelled, sizes, sizes),
    st.just(Pong()),
)


@given(st.lists(messages, max_size=5))
def test_messages_survive_a_packet(sent: list[Message]) -> None:
    packet = b"".join(encode(message, OPERATORS) for message in sent)
    assert list(decode(packet, OPERATORS)) == sent


@given(st.binary(max_size=200))
def test_bytes_that_are_no_frames_are_refused_and_nothing_else_happens(packet: bytes) -> None:
    with suppress(FrameError):
        list(decode(packet, OPERATORS))


def test_a_call_with_too_many_parameters_is_refused() -> None:
    call = KernelCall(
        operator="first",
        shares=(1,),
        parameters=(0,) * (PARAMETERS_LIMIT + 1),
        tensors=(),
        workspace=None,
    )
    with pytest.raises(FrameError, match="6145 parameters, above 6144"):
        encode(Run(1, Flow(1, 1), call), OPERATORS)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("packet", [b"", b"no frame"])
async def test_a_worker_that_closes_its_socket_or_sends_no_message_is_lost_once(
    ends: tuple[socket.socket, socket.socket], packet: bytes
) -> None:
    ours, theirs = ends
    events: list[object] = []
    channel = Channel(
        ours,
        operators=OPERATORS,
        on_message=events.append,
        on_close=lambda: events.append("closed"),
    )
    theirs.send(encode(Pong(), OPERATORS))
    if packet:
        theirs.send(packet)
    else:
        theirs.close()

    channel.drain()
    channel.drain()

    assert events == [Pong(), "closed"]
    assert ours.fileno() == -1


async def test_closing_a_channel_is_no_loss(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, _ = ends
    lost: list[bool] = []
    channel = Channel(
        ours,
        operators=OPERATORS,
        on_message=lambda _: None,
        on_close=lambda: lost.append(True),
    )

    channel.close()
    channel.drain()

    assert (lost, ours.fileno()) == ([], -1)
