"""Device memory: buffers, and tensors in them."""

from typing import TypeAlias

from typing_extensions import override

from opserve.v1.memory_service_pb2 import (
    CopyRequest,
    FillRequest,
    FreeRequest,
    ReadRequest,
    WriteRequest,
)
from opserve_client._async.session_calls import AsyncSessionCalls
from opserve_client.arguments import LARGEST_UINT32, host_bytes, session_object, unsigned
from opserve_client.arguments import array as array_of
from opserve_client.data_types import numpy_dtype
from opserve_client.errors import invalid_argument
from opserve_client.tensors import (
    Array,
    TensorSpec,
    elements_of,
    span_bytes,
    start_bytes,
    view_of,
)
from opserve_client.wire.methods import COPY, FILL, FREE
from opserve_kernels.array_like import ArrayLike, SupportsArray, SupportsDlpack, bytes_of

HostBytes: TypeAlias = "bytes | bytearray | memoryview | Array | SupportsArray | SupportsDlpack"


class AsyncBuffer:
    """Device memory of a session. `session.allocate` returns one.

    Every method raises AclrtError 107017 if the buffer is freed or its session closed, and 107000
    if a range exceeds the buffer.

    Attributes:
        owner: The calls of its session.
        handle: Handle within the session.
        size_bytes: Size in bytes.
    """

    def __init__(self, owner: AsyncSessionCalls, *, handle: int, size_bytes: int) -> None:
        self.owner = owner
        self.handle = handle
        self.size_bytes = size_bytes

    @override
    def __repr__(self) -> str:
        place = f"{self.handle} of session {self.owner.shown_session}"
        return f"<{type(self).__name__} {place}: {self.size_bytes} bytes, {self.owner.state}>"

    async def map(self) -> Array:
        """Maps the buffer into this process, on the service's host: a uint8 array of size_bytes.

        The method waits for queued work on the buffer. After that, client and device see each
        other's changes at once: synchronise a stream before you read what it writes, and change
        nothing that queued work reads. Do not use the array after the buffer is freed or its
        session closed.

        Raises:
            AclrtError: 207000, the service runs on another host or has shared memory disabled.
        """
        return await self.owner.map(self.handle)

    async def write(self, data: HostBytes, *, offset: int = 0) -> None:
        """Copies host bytes, or an array's elements in row-major order, into the buffer.

        Args:
            data: The bytes, or an array of numbers of any dtype, shape and library.
            offset: Bytes from the start of the buffer.
        """
        content = host_bytes(data, parameter="data")
        start = unsigned(offset, parameter="offset")
        await self.owner.write(WriteRequest(buffer=self.handle, offset=start), content)

    async def read(self, *, offset: int = 0, size_bytes: int | None = None) -> bytes:
        """Copies size_bytes bytes from `offset` on to the host; None means all the rest."""
        start, size = _range(self, offset, size_bytes, parameter="offset")
        request = ReadRequest(buffer=self.handle, offset=start, size_bytes=size)
        return (await self.owner.read(request)).tobytes()

    async def fill(self, value: int, *, offset: int = 0, size_bytes: int | None = None) -> None:
        """Sets size_bytes bytes from `offset` on to a value of 0 to 255 (aclrtMemset).

        None for size_bytes means all the rest.
        """
        start, size = _range(self, offset, size_bytes, parameter="offset")
        request = FillRequest(
            session=self.owner.session,
            buffer=self.handle,
            offset=start,
            size_bytes=size,
            value=unsigned(value, parameter="value", most=LARGEST_UINT32),
        )
        await self.owner.call(FILL, request)

    async def copy_from(
        self,
        source: "AsyncBuffer",
        *,
        offset: int = 0,
        source_offset: int = 0,
        size_bytes: int | None = None,
    ) -> None:
        """Copies size_bytes bytes of another buffer into this one; None means all the rest.

        Args:
            source: Buffer of the same session to copy from.
            offset: Bytes from the start of this buffer.
            source_offset: Bytes from the start of the source.
            size_bytes: Number of bytes; None means all from source_offset on.
        """
        session_object(source, AsyncBuffer, self.owner, parameter="source")
        start, size = _range(source, source_offset, size_bytes, parameter="source_offset")
        request = CopyRequest(
            session=self.owner.session,
            destination=self.handle,
            destination_offset=unsigned(offset, parameter="offset"),
            source=source.handle,
            source_offset=start,
            size_bytes=size,
        )
        await self.owner.call(COPY, request)

    async def free(self) -> None:
        """Frees the buffer; its memory is reused after the queued work that uses it."""
        request = FreeRequest(session=self.owner.session, buffer=self.handle)
        await self.owner.call(FREE, request)


class AsyncTensor:
    """A strided view of elements in a buffer. `session.upload`, `empty` and `tensor` return one.

    Attributes:
        owner: The calls of its session.
        spec: Shape, dtype, format, strides and offset.
        buffer: The viewed memory; None is a null pointer.
        format_follows_call: Whether the format is a default, which a call replaces by the format
            of its arrays.
    """

    def __init__(
        self,
        owner: AsyncSessionCalls,
        spec: TensorSpec,
        buffer: AsyncBuffer | None,
        *,
        format_follows_call: bool,
    ) -> None:
        self.owner = owner
        self.spec = spec
        self.buffer = buffer
        self.format_follows_call = format_follows_call

    @override
    def __repr__(self) -> str:
        spec = self.spec
        return f"<{type(self).__name__} {list(spec.shape)} {spec.dtype} {spec.format}>"

    @property
    def shape(self) -> tuple[int, ...]:
        """View dimensions."""
        return self.spec.shape

    async def download(self) -> Array:
        """Copies the elements of the view to a new array of its shape.

        Elements of BF16 have the dtype `ml_dtypes.bfloat16`.
        """
        return elements_of(self.spec, await self._read_span())

    async def upload(self, array: ArrayLike) -> None:
        """Sets the elements of the view; bytes between them keep their values.

        Args:
            array: Elements of the view's shape and dtype, as an array of any library or in lists.

        Raises:
            AclnnError: 161002, the array has another shape or dtype.
        """
        dtype = numpy_dtype(self.spec.dtype)
        elements = array_of(array, parameter="array")
        if elements.shape != self.spec.shape or elements.dtype != dtype:
            given = f"{list(elements.shape)} {elements.dtype}"
            raise invalid_argument("array", given, f"{list(self.spec.shape)} {dtype}")
        if self.spec.strides is None:
            content = bytes_of(elements)
        else:
            span = await self._read_span()
            view_of(self.spec, span)[...] = elements
            content = span
        request = WriteRequest(buffer=self.spec.buffer, offset=start_bytes(self.spec))
        await self.owner.write(request, content)

    async def _read_span(self) -> memoryview:
        spec = self.spec
        size = unsigned(span_bytes(spec), parameter="size_bytes")
        request = ReadRequest(buffer=spec.buffer, offset=start_bytes(spec), size_bytes=size)
        return await self.owner.read(request)


def _range(
    buffer: AsyncBuffer, offset: int, size_bytes: int | None, *, parameter: str
) -> tuple[int, int]:
    """Returns the start and the bytes of a range; None for size_bytes means all the rest."""
    start = unsigned(offset, parameter=parameter)
    if size_bytes is None:
        return start, max(buffer.size_bytes - start, 0)
    return start, unsigned(size_bytes, parameter="size_bytes")
