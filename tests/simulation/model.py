"""What the core's state machine expects: a small model of a session."""

from collections import deque
from dataclasses import dataclass, field


@dataclass
class ModelExecutor:
    """A planned call and the buffers it names."""

    buffers: set[int]
    workspace_size: int
    repeatable: bool


@dataclass
class ModelStream:
    """Queued work in order: ("run", executor), ("mark", record) or ("wait", record)."""

    queue: deque[tuple[str, int]] = field(default_factory=deque[tuple[str, int]])
    failed: int = 0
    """The executor whose failure the next synchronise must tell; 0 where none is due."""


@dataclass
class ModelSession:
    """What a session must hold."""

    name: str
    buffers: dict[int, bytes] = field(default_factory=dict[int, bytes])
    executors: dict[int, ModelExecutor] = field(default_factory=dict[int, ModelExecutor])
    streams: dict[int, ModelStream] = field(default_factory=lambda: {0: ModelStream()})
    events: dict[int, int] = field(default_factory=dict[int, int])
    dead: dict[str, list[int]] = field(
        default_factory=lambda: {"buffer": [], "executor": [], "stream": [], "event": []}
    )
    last: dict[str, int] = field(
        default_factory=lambda: {"buffer": 0, "executor": 0, "stream": 0, "event": 0}
    )

    @property
    def queued(self) -> int:
        return sum(len(stream.queue) for stream in self.streams.values())
