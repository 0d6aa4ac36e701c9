"""Steps of every gRPC method: authenticate the caller, take a slot, receive messages, answer."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

import grpc
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from grpc import StatusCode
from typing_extensions import override

from opserve_server.calls import ObservedCall, call_id, malformed
from opserve_server.certificates import names_in_auth_context
from opserve_server.core.observations import Call, Observe
from opserve_server.core.principal import Scope
from opserve_server.grpc_api.elements import SMALL_BYTES, check_elements
from opserve_server.grpc_api.errors import REQUEST_ID, Context, fail
from opserve_server.grpc_api.scopes import SCOPES
from opserve_server.guard import AUTHORIZATION, Credentials, Guard
from opserve_server.open_calls import CallSlot

ResultT = TypeVar("ResultT")
Behaviour = Callable[..., Any]
Read = Callable[[bytes], Awaitable[Any]]
Receive = Callable[[CallSlot, Context], Awaitable[Callable[[], Awaitable[Any]]]]


class WrappingServer:
    """The server to which generated code adds services; a method's error becomes its status.

    Each call gets its id, and each failure its status and details. Methods are wrapped once, when
    they are added; an interceptor would wrap them for every call.

    Args:
        server: Server of the methods.
        guard: Checks every call.
        observe: Observer of every call.
    """

    def __init__(self, server: grpc.aio.Server, guard: Guard, observe: Observe) -> None:
        self._server = server
        self._guard = guard
        self._observe = observe

    def add_generic_rpc_handlers(self, _: object) -> None:
        """Does nothing: add_registered_method_handlers gets the same methods."""

    def add_registered_method_handlers(
        self, service: str, handlers: "Mapping[str, grpc.RpcMethodHandler[Any, Any]]"
    ) -> None:
        """Adds the methods of a service, which SCOPES must have."""
        scope = SCOPES[service]
        wrapped = {
            name: _wrapped(handler, _Method(name, scope, self._guard, self._observe))
            for name, handler in handlers.items()
        }
        handler = grpc.method_handlers_generic_handler(service, wrapped)
        self._server.add_generic_rpc_handlers((handler,))


@dataclass(frozen=True, slots=True)
class _Method:
    """A method of a service, with its scope, guard and observer.

    Attributes:
        name: Name for observers.
        scope: Required scope; None admits every caller.
        guard: Checks each call.
        observe: Observer of each call.
    """

    name: str
    scope: Scope | None
    guard: Guard
    observe: Observe

    def begin(self, context: Context) -> tuple[Call, Credentials]:
        """A new call, whose id is sent back with any answer, and its credentials."""
        headers = dict(context.invocation_metadata() or ())
        authorization = headers.pop(AUTHORIZATION, None)
        request_id = call_id(headers.get(REQUEST_ID))
        context.set_trailing_metadata(((REQUEST_ID, request_id),))
        call = Call(api="grpc", method=self.name, request_id=request_id, headers=headers)
        return call, _credentials(authorization, context)

    def enter(
        self, call: Call, credentials: Credentials, context: Context, *, is_watch: bool
    ) -> CallSlot:
        """Takes a slot for the call until its answer is sent."""
        slot = self.guard.enter(call, credentials, self.scope, is_watch=is_watch)
        context.add_done_callback(lambda _: slot.leave())  # type: ignore[arg-type]  # any callable
        return slot

    async def admit(self, call: Call) -> None:
        """Admits a call if its caller has the scope."""
        await self.guard.admit(call, self.scope)


def _wrapped(
    handler: "grpc.RpcMethodHandler[Any, Any]", method: _Method
) -> "grpc.RpcMethodHandler[Any, Any]":
    """A handler that receives its messages here, after its caller is authenticated.

    For a unary call gRPC itself receives the message before it calls any handler: from every
    caller, of any size and for any time. For a call with a stream of requests it receives none; on
    the wire both are the same.
    """
    read = _reader(handler.request_deserializer)
    serialize = handler.response_serializer
    assert serialize is not None, "generated code has one for every method"
    if handler.unary_stream is not None:
        stream = _streaming(handler.unary_stream, method, partial(_only_message, read))
        return grpc.stream_stream_rpc_method_handler(stream, None, serialize)
    if handler.stream_stream is not None:
        both = _streaming(handler.stream_stream, method, partial(_all_messages, read))
        return grpc.stream_stream_rpc_method_handler(both, None, serialize)
    if handler.stream_unary is not None:
        single = _answering(handler.stream_unary, method, partial(_all_messages, read), serialize)
        return grpc.stream_unary_rpc_method_handler(single)
    assert handler.unary_unary is not None, "there is no fifth kind"
    answer = _answering(handler.unary_unary, method, partial(_only_message, read), serialize)
    return grpc.stream_unary_rpc_method_handler(answer)


def _reader(deserialize: Callable[[bytes], Any] | None) -> Read:
    if deserialize is None:
        return _as_it_came
    form: Descriptor = deserialize(b"").DESCRIPTOR  # from an empty message
    return partial(message_in, form, deserialize)


async def message_in(form: Descriptor, deserialize: Callable[[bytes], Any], data: bytes) -> Any:  # noqa: ANN401  # any kind
    """Parses a client's message.

    Args:
        form: Type of the message.
        deserialize: Parser.
        data: The bytes.

    Raises:
        InvalidArgument: 100000, they are malformed, or a message of too many values.
    """
    if len(data) > SMALL_BYTES:
        await check_elements(data, form)
    try:
        return deserialize(data)
    except DecodeError:
        allowed = "the method's message, nested no deeper than 100"
        raise malformed("message", given="other bytes", allowed=allowed) from None


async def _as_it_came(request: Any) -> Any:  # noqa: ANN401  # for a method that reads its bytes itself
    return request


async def _only_message(
    read: Read, slot: CallSlot, context: Context
) -> Callable[[], Awaitable[Any]]:
    """Receives the only message of a call; the result parses it on demand."""
    data = await slot.received(context.read)
    if data is grpc.aio.EOF:
        raise malformed("message", given="none", allowed="one")
    slot.keep(len(data))
    return partial(read, data)


class Messages(AsyncIterator[Any]):
    """The messages of a call with a stream of requests, each received on demand.

    A message is charged until the next one is requested, unless the method charges its messages
    itself.

    Args:
        read: Parses a message.
        slot: The slot of the call.
        context: The call's context.
    """

    def __init__(self, read: Read, slot: CallSlot, context: Context) -> None:
        self._read = read
        self._slot = slot
        self._context = context
        self._counts = True

    @override
    async def __anext__(self) -> Any:
        data = await self._slot.received(self._context.read)
        if data is grpc.aio.EOF:
            raise StopAsyncIteration
        if self._counts:
            self._slot.keep(len(data))
        return await self._read(data)

    def count_no_more(self) -> None:
        """Stops charging messages: the method does it itself."""
        self._counts = False
        self._slot.keep(0)


async def _all_messages(
    read: Read, slot: CallSlot, context: Context
) -> Callable[[], Awaitable[Any]]:
    async def all_of_them() -> Messages:
        return Messages(read, slot, context)

    return all_of_them


def _answering(
    behaviour: Behaviour, method: _Method, receive: Receive, serialize: Callable[[Any], bytes]
) -> Behaviour:
    # An error clears the frame of the inner function, and so the message in it; see `fail`.
    async def answered(call: Call, credentials: Credentials, context: Context) -> bytes:
        with method.enter(call, credentials, context, is_watch=False) as slot:
            request: Any = await receive(slot, context)
            await method.admit(call)
            request = await request()  # its bytes are released: the kept message is charged once
            response = serialize(await behaviour(request, context))
            slot.keep(len(response))
            await method.guard.turn(call)
            return response

    async def answer(_: object, context: Context) -> bytes:
        call, credentials = method.begin(context)
        return await _to_its_outcome(answered(call, credentials, context), method, call, context)

    return answer


def _streaming(behaviour: Behaviour, method: _Method, receive: Receive) -> Behaviour:
    # Answers are written here, not yielded, so that a cancelled call closes its generator at once,
    # instead of at its garbage collection.
    async def write(call: Call, credentials: Credentials, context: Context) -> None:
        with method.enter(call, credentials, context, is_watch=True) as slot:
            request: Any = await receive(slot, context)
            await method.admit(call)
            request = await request()  # its bytes are released: the kept message is charged once
            async with (
                aclosing(behaviour(request, context)) as answers,
                aclosing(method.guard.while_allowed(answers, call, credentials)) as allowed,
            ):
                async for answer in allowed:
                    await slot.sent(context.write(answer))

    async def stream(_: object, context: Context) -> None:
        call, credentials = method.begin(context)
        await _to_its_outcome(write(call, credentials, context), method, call, context)

    return stream


async def _to_its_outcome(
    work: Awaitable[ResultT], method: _Method, call: Call, context: Context
) -> ResultT:
    """The result of a call; a failure ends the call with its status."""
    with ObservedCall(call, method.observe):
        try:
            result = await work
        except Exception as error:  # noqa: BLE001  # answered, or hidden and logged
            await method.guard.turn(call)
            await fail(context, error, call)
        call.outcome = StatusCode.OK.name
        return result


def _credentials(authorization: str | bytes | None, context: Context) -> Credentials:
    return Credentials(
        authorization=authorization if isinstance(authorization, str) else None,
        certificate=lambda: names_in_auth_context(context.auth_context()),
        peer=lambda: _host_of(context.peer()),
    )


def _host_of(peer: str) -> str:
    """The address in gRPC's "ipv4:192.0.2.1:50000" or "ipv6:%5B2001:db8::1%5D:50000"."""
    _, _, address = unquote(peer).partition(":")
    host, _, _ = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]")
