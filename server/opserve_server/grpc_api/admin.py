"""AdminService, made from the administration calls."""

from types import SimpleNamespace

from opserve.v1 import admin_service_pb2
from opserve_server.admin_audit import audited
from opserve_server.admin_calls import ANSWERS
from opserve_server.administration import Administration
from opserve_server.grpc_api.values import methods_of


def admin_api(administration: Administration) -> object:
    """The servicer of AdminService."""

    async def run(request: object) -> object:
        with audited():
            return await administration.run(request)

    return SimpleNamespace(**methods_of(ANSWERS, admin_service_pb2, run))
