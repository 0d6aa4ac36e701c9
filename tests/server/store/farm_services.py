"""Services of a farm, for tests: rows of the directory, and ends of leases without a wait."""

from opserve_server.store.services import ServiceRow
from server.store.samples import engine_of


def row(name: str = "a", instance: str = "one", **others: object) -> ServiceRow:
    """A row with something in every column."""
    values = {
        "grpc_address": f"grpc://{name}:1",
        "http_address": f"http://{name}:2",
        "version": "1.2.3",
        "contract": "0123",
        "kernel_variant": "fma16",
        "drains": False,
        "devices": "[]",
    }
    return ServiceRow(name=name, instance=instance, **values | others)  # type: ignore[arg-type]


async def end_lease(url: str, name: str) -> None:
    """The time of a lease passes."""
    await _run(url, f"UPDATE services SET lease_until = 1.0 WHERE name = '{name}'")  # noqa: S608


async def set_back(url: str, seconds: float) -> None:
    """Time passes since the last changes of all services."""
    await _run(url, f"UPDATE services SET changed_at = changed_at - {seconds}")  # noqa: S608


async def _run(url: str, statement: str) -> None:
    engine = engine_of(url)
    async with engine.begin() as connection:
        await connection.exec_driver_sql(statement)
    await engine.dispose()
