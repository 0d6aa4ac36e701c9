"""Cost of a move: opening a session that another service has, beside one of the called service."""

import asyncio
import time
from statistics import median

from benchmarks.service_with_keys import new_store
from opserve_client import Client
from opserve_client.private_service import private_service
from opserve_server.core.farm import service_id
from server.store.postgresql import postgresql

SESSIONS = 300
_ROOM = "64"


def moved_ms() -> float:
    """Milliseconds that a move adds to the opening of a session: the difference of two medians."""
    with postgresql() as server:
        url = server.url("test")
        asyncio.run(new_store(url, ()))
        common = {"devices": '["ascend910b"]', "store_url": url, "log_level": "ERROR"}
        with (
            private_service(farm_name="full", device_sessions_limit="1", **common) as full,
            private_service(farm_name="free", device_sessions_limit=_ROOM, **common) as free,
            Client(full.grpc) as moving,
            Client(free.grpc) as staying,
            moving.open_session(),
        ):
            while moving.list_devices()[-1].host != "free":
                pass  # until the next renewal
            times_s = {client: list[float]() for client in (moving, staying)}
            for _ in range(SESSIONS):
                for client, taken_s in times_s.items():
                    began_s = time.perf_counter()
                    session = client.open_session()
                    taken_s.append(time.perf_counter() - began_s)
                    assert session.name.endswith(service_id("free"))
                    session.close()
            return 1000.0 * (median(times_s[moving]) - median(times_s[staying]))
