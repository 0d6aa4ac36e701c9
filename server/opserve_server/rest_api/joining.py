"""An answer's head and its body leave as one packet: a second costs as much as all else does."""

import asyncio

_SMALL_BYTES = 4096
"""The head of an answer, or an event; what is larger is not worth holding."""


class JoiningTransport:
    """What uvicorn writes an answer to: its head waits for what comes in the same turn of the loop.

    Args:
        transport: Where it goes.
        loop: The event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: bytes | None = None

    def write(self, data: bytes) -> None:
        """Writes a small piece with the next one, or at the end of this turn."""
        held, self._held = self._held, None
        if held is not None:
            self._transport.writelines((held, data))
        elif len(data) > _SMALL_BYTES:
            self._transport.write(data)
        else:
            self._held = data
            self._loop.call_soon(self._write_held)

    def close(self) -> None:
        """Closes it when all is written."""
        self._write_held()
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._transport.is_closing()

    def _write_held(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._transport.write(held)
