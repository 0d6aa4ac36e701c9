"""Every command of a session. Each stands beside its handler, in the module of what it works on.

A command is a frozen dataclass. Both wires speak in these values; a unary call is a batch of one
(see Service.run and submit). Handles are positive; 0 stands for "none" or, where a handle is made,
"the service chooses".
"""

from opserve_server.core.event_commands import EVENT_COMMANDS, EventCommand
from opserve_server.core.handler import Handlers
from opserve_server.core.memory_commands import MEMORY_COMMANDS, MemoryCommand
from opserve_server.core.operator_commands import OPERATOR_COMMANDS, OperatorCommand
from opserve_server.core.principal import Scope
from opserve_server.core.stream_commands import STREAM_COMMANDS, StreamCommand

SCOPE = Scope.OPERATE
"""The scope that each command requires, and each other call of the core."""

Command = MemoryCommand | OperatorCommand | StreamCommand | EventCommand
HANDLERS: Handlers = {
    **MEMORY_COMMANDS,
    **OPERATOR_COMMANDS,
    **STREAM_COMMANDS,
    **EVENT_COMMANDS,
}
