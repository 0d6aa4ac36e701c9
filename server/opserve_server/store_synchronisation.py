"""Key policy, and the store of tenants and keys from the start to the end of a service."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from opserve_server.addresses import is_loopback
from opserve_server.core.audit import RefusedCalls
from opserve_server.core.errors import StoreUnavailable
from opserve_server.core.service import Service
from opserve_server.guard import Guard, KeyPolicy
from opserve_server.identity import Identity
from opserve_server.serving import StartFailed
from opserve_server.settings import SettingRefused, Settings, where_set
from opserve_server.store.location import File, Missing, location_of
from opserve_server.unknown_keys import UnknownKeyLimits


def key_policy(settings: Settings) -> KeyPolicy:
    """Condition under which callers need a key.

    Raises:
        SettingRefused: No store is set, and the service was not started with --no-keys.
    """
    if settings.no_keys:
        return KeyPolicy.NEVER
    if not settings.store_url.get_secret_value():
        raise SettingRefused(
            "store_url is missing: make a store with `opserve bootstrap`, or start with --no-keys. "
            f"Set it by {where_set('store_url')}."
        )
    return KeyPolicy.ALWAYS if _is_configured(settings) else KeyPolicy.FROM_THE_FIRST_KEY


def unknown_key_limits(settings: Settings) -> UnknownKeyLimits:
    """The settings that bound unknown keys."""
    return UnknownKeyLimits(
        per_s=1 / settings.unknown_key_interval_s,
        at_once=settings.unknown_keys_limit,
        peers=settings.guessing_addresses_limit,
    )


@asynccontextmanager
async def store_synchronisation(
    guard: Guard, service: Service, refused: RefusedCalls, settings: Settings
) -> AsyncGenerator[Identity | None]:
    """Synchronises the guard with the store, if there is one, until the block ends.

    Raises:
        SettingRefused: A configured store is missing, empty or without a key.
        StartFailed: The store does not answer, or other machines can reach a service without keys.
    """
    url, policy = settings.store_url.get_secret_value(), key_policy(settings)
    if not url:
        _check_exposure(guard, settings)
        yield None
        return
    # SQLAlchemy takes a fifth of the start, and a service without a store needs none.
    from opserve_server.store.store import open_store  # noqa: PLC0415

    opened = open_store(
        url,
        timeout_s=settings.store_timeout_s,
        connections_limit=settings.store_connections_limit,
        missing=_when_missing(settings),
    )
    async with opened as store:
        identity = Identity(
            guard, service, store, refused, audit_retention_days=settings.audit_retention_days
        )
        try:
            directory = await identity.begin()
            if not directory.keyless:
                store.note_keys()
        except StoreUnavailable as error:
            raise StartFailed(f"{error.message}; see the log") from error
        if policy is KeyPolicy.ALWAYS and directory.keyless:
            raise _without_a_key(url)
        _check_exposure(guard, settings)
        keeping = asyncio.create_task(identity.keep(interval_s=settings.directory_refresh_s))
        try:
            yield identity
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
            await identity.stop()


def _is_configured(settings: Settings) -> bool:
    """Whether a store is set, or the default one has had a key: its marker outlives its file."""
    url = settings.store_url.get_secret_value()
    return "store_url" in settings.model_fields_set or location_of(url).has_had_keys()


def _when_missing(settings: Settings) -> Missing:
    """Creates only a store that was never used: an existing file without tables has lost them."""
    location = location_of(settings.store_url.get_secret_value())
    never_made = isinstance(location, File) and not location.is_there()
    return Missing.CREATE if never_made and not _is_configured(settings) else Missing.REJECT


def _without_a_key(url: str) -> SettingRefused:
    return SettingRefused(
        f"store_url {location_of(url)} has no key: make the first one with `opserve bootstrap`, "
        f"or start with --no-keys. Set it by {where_set('store_url')}."
    )


def _check_exposure(guard: Guard, settings: Settings) -> None:
    """Rejects a start where other machines can reach a service that requires no key."""
    for name in ("grpc_address", "rest_address"):
        address = getattr(settings, name)
        if guard.keyless and not is_loopback(address):
            raise StartFailed(
                f"{name} is {address}, which other machines can reach, and no key is required: "
                "make the first one with `opserve bootstrap`, or use a loopback address."
            )
