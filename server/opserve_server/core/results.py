"""Results of commands: a frozen dataclass for each."""

from dataclasses import dataclass

from opserve_server.core.errors import OpserveError


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The command succeeded and has no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocated:
    """A new buffer; buffer 0 where an executor needs no workspace.

    Attributes:
        buffer: Handle of the buffer.
        size_bytes: Its size, bytes.
        slab: Its slab of shared memory, if the session's client has mapped that; else 0.
        offset: Its first byte there.
    """

    buffer: int
    size_bytes: int
    slab: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Bytes that were written.

    Attributes:
        size_bytes: Number of bytes that were written.
    """

    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Bytes that were read.

    Attributes:
        data: The bytes.
    """

    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWarning:
    """A broken rule of the vendor's page, of a call that is accepted nevertheless.

    Attributes:
        code: The code that rejects the call where documented rules are errors.
        name: The vendor's name of the code.
        domain: Family of the code.
        parameter: The parameter that breaks the rule.
        given: The given value.
        allowed: The values that the page allows.
        sentence: The page's sentence, in the page's own language.
    """

    code: int
    name: str
    domain: str
    parameter: str
    given: str
    allowed: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The answer of phase one.

    Attributes:
        workspace_size: Bytes that the workspace must have.
        executor: Handle of the executor.
        warnings: Broken rules of the vendor's page, where documented rules are warnings.
    """

    workspace_size: int
    executor: int
    warnings: tuple[RuleWarning, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCreated:
    """A new stream.

    Attributes:
        stream: Its handle.
    """

    stream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCreated:
    """A new event.

    Attributes:
        event: Its handle.
    """

    event: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queried:
    """Whether a stream's work, or an event's record, is done.

    Attributes:
        complete: Whether it is done.
    """

    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Elapsed:
    """Milliseconds between two events.

    Attributes:
        elapsed_ms: Milliseconds between them.
    """

    elapsed_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The command was rejected; later commands of its batch did not run.

    Attributes:
        error: The error.
    """

    error: OpserveError


Result = (
    Done
    | Allocated
    | Written
    | Content
    | Planned
    | StreamCreated
    | EventCreated
    | Queried
    | Elapsed
    | Failed
)
