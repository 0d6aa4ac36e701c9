"""Every command of a session, with its handler; each is declared in the module of its subject.

A command is a frozen dataclass, the same for gRPC and REST. A unary call is a batch of one (see
Service.run and submit). Handles are positive; 0 means "none" or, where a handle is made, "the
service chooses".
"""

from opserve_server.core.event_commands import EVENT_COMMANDS, EventCommand
from opserve_server.core.handler import Handlers
from opserve_server.core.memory_commands import MEMORY_COMMANDS, MemoryCommand
from opserve_server.core.operator_commands import OPERATOR_COMMANDS, OperatorCommand
from opserve_server.core.principal import Scope
from opserve_server.core.stream_commands import STREAM_COMMANDS, StreamCommand

SCOPE = Scope.OPERATE
"""The scope that each command and each other call of the core requires."""

Command = MemoryCommand | OperatorCommand | StreamCommand | EventCommand
HANDLERS: Handlers = {
    **MEMORY_COMMANDS,
    **OPERATOR_COMMANDS,
    **STREAM_COMMANDS,
    **EVENT_COMMANDS,
}
