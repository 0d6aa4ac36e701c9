"""Required scope of each gRPC service; a service without an entry is not served."""

from collections.abc import Mapping

from opserve_server import admin_calls
from opserve_server.conformance import calls as conformance_calls
from opserve_server.core import commands
from opserve_server.core.principal import Scope

SCOPES: Mapping[str, Scope | None] = {
    "grpc.health.v1.Health": None,
    "grpc.reflection.v1alpha.ServerReflection": commands.SCOPE,
    "inference.GRPCInferenceService": commands.SCOPE,
    "opserve.v1.AdminService": admin_calls.SCOPE,
    "opserve.v1.CommandService": commands.SCOPE,
    "opserve.v1.ConformanceService": conformance_calls.SCOPE,
    "opserve.v1.EventService": commands.SCOPE,
    "opserve.v1.MemoryService": commands.SCOPE,
    "opserve.v1.OperatorService": commands.SCOPE,
    "opserve.v1.SessionService": commands.SCOPE,
    "opserve.v1.StreamService": commands.SCOPE,
    "opserve.v1.UsageService": commands.SCOPE,
    "opserve.v1.WatchService": commands.SCOPE,
}
"""Scopes by the service's name; None admits every caller."""
