"""Every command by its name, for tests of many; the product imports each from its own module."""
# ruff: noqa: F403, PLC0414

from opserve_server.core.commands import *
from opserve_server.core.event_commands import *
from opserve_server.core.memory_commands import *
from opserve_server.core.operator_commands import *
from opserve_server.core.stream_commands import *
from opserve_server.core.streams import FailureMode as FailureMode
