"""Everything an operator of the service can set, each with its unit and default."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from opserve_kernels.cases.cache import cache_folder
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.profiles import DEFAULT_PROFILE, PROFILES, profile_named
from opserve_server.addresses import host_and_port, is_loopback
from opserve_server.allowed_values import allowed
from opserve_server.store.location import default_url, location_of

_KIB = 1024
_MIB = 1024 * _KIB
_GIB = 1024 * _MIB
COMMANDS_MAXIMUM = 2**14
"""Commands of one Submit, whatever is set: no more are read of a JSON document."""
THREADS_LIMIT = 8
"""Threads of a device: what each of them is told of a call must fit a packet with the others."""
TAGS_LIMIT = 16
"""Tags of one device."""
PREFIX = "OPSERVE_"
OPTIONS = {
    "grpc_address": "--grpc-address",
    "rest_address": "--rest-address",
    "devices": "--device",
    "device_memory_bytes": "--device-memory-bytes",
    "no_keys": "--no-keys",
}
"""Settings that are options of `opserve serve` too."""


class SettingRefused(Exception):
    """A setting that the service cannot run with; the message is one line for whoever set it."""


def device_names(profiles: Sequence[str]) -> list[str]:
    """The names of devices, by profile and number: "ascend910b-0"."""
    return [
        f"{profile}-{profiles[:place].count(profile)}" for place, profile in enumerate(profiles)
    ]


def _an_address(address: str) -> str:
    host_and_port(address)
    return address


def _a_profile(name: str) -> str:
    try:
        return profile_named(name).name
    except InvalidArgument as error:
        raise ValueError(f"the profiles {error.allowed}") from error


def _a_store(url: SecretStr) -> SecretStr:
    if url:
        location_of(url.get_secret_value())
    return url


def _default_store() -> SecretStr:
    return SecretStr(default_url())


def _default_expected_values_folder() -> Path:
    return cache_folder().with_name("service-expected-values")


def _a_folder(given: object) -> object:
    if given == "":
        raise ValueError("a folder")  # to a Path it is the one where the service was started
    return given


Address = Annotated[str, AfterValidator(_an_address)]
Folder = Annotated[Path, BeforeValidator(_a_folder)]
StoreUrl = Annotated[SecretStr, AfterValidator(_a_store)]
Tag = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Tags = dict[str, Annotated[list[Tag], Field(max_length=TAGS_LIMIT)]]
Count = Annotated[int, Field(ge=1)]
Bytes = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """Settings of the service, read from environment variables with the prefix OPSERVE_.

    A list is written as JSON: OPSERVE_DEVICES='["ascend910b", "ascend910b"]'.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )

    grpc_address: Address = "127.0.0.1:50051"
    """Where the gRPC API listens, host:port; port 0 takes a free one."""
    rest_address: Address = "127.0.0.1:8080"
    """Where the REST API listens, host:port; port 0 takes a free one."""
    tls_certificate_file: str = ""
    """Certificate chain that the service shows, PEM; empty: it speaks plain text."""
    tls_key_file: str = ""
    """Private key of that certificate, PEM, without a password."""
    client_ca_file: str = ""
    """Authorities, PEM, of which every client must show a certificate; empty: none is asked for."""
    allow_plaintext: bool = False
    """Whether other machines may reach the service without TLS: a proxy in front of it has that."""
    shared_memory: bool = True
    """Whether clients on this host map the memory of their sessions, instead of copying streams."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Least level of what is logged: DEBUG, INFO, WARNING or ERROR."""

    store_url: StoreUrl = Field(default_factory=_default_store)
    """Where tenants, keys, usage, audit and runs of suites are kept: sqlite:///file, or
    postgresql://user:password@host/database, made by `opserve bootstrap`; empty, with no_keys
    alone, keeps nothing. Default: opserve/opserve.db in $XDG_STATE_HOME or else ~/.local/state."""
    no_keys: bool = False
    """Whether callers need no key, whatever the store lists; allowed on loopback addresses only.
    Otherwise a key is required if store_url is set, or once the default store has had a key."""
    store_connections_limit: Count = 4
    """Open connections to the store at once."""
    store_timeout_s: Seconds = 5.0
    """Longest wait for the store: for a connection, a lock or a statement, seconds."""

    devices: Annotated[list[Annotated[str, AfterValidator(_a_profile)]], Field(min_length=1)] = (
        list(PROFILES)
    )
    """Profiles of the virtual devices, one entry for each device; a worker takes about 3 MB."""
    device_memory_bytes: Bytes = _GIB
    """Memory of each device, bytes."""
    device_threads: Annotated[int, Field(ge=1, le=THREADS_LIMIT)] = 1
    """Threads that a call may run on; the devices share the machine's cores, so one unless set."""
    device_tags: Tags = {}
    """Tags that sessions can ask for, by name of the device, which is its profile and its number
    among those of that profile: {"ascend910b-0": ["lab", "quiet"]}."""
    slab_bytes: Bytes = 16 * _MIB
    """Size of a slab, the unit in which a session takes device memory, bytes."""

    sessions_limit: Count = 256
    """Open sessions at once."""
    device_sessions_limit: Count = 256
    """Open sessions at once on one device."""
    exclusive_limit_s: Seconds = 3600.0
    """Time after which an exclusive session ends, however much its client works, seconds."""
    waiting_limit: Count = 256
    """Requests for a device that wait at once, of all tenants."""
    tenant_waiting_limit: Count = 16
    """Requests for a device that wait at once, of one tenant."""
    device_wait_limit_s: Seconds = 3600.0
    """Longest wait for a device, over many calls, seconds; longer ones are cut to it."""
    waiting_return_s: Seconds = 5.0
    """Time for which the place of a client that waits is kept between two calls, seconds."""
    priority_step_s: Seconds = 60.0
    """Time of waiting that a step of priority counts as, seconds."""
    buffers_limit: Count = 4096
    """Live buffers of one session."""
    executors_limit: Count = 4096
    """Live executors of one session."""
    plans_limit: Count = 128
    """Plans that one session remembers, so that an equal call is not planned again."""
    streams_limit: Count = 64
    """Live streams of one session."""
    events_limit: Count = 4096
    """Live events of one session."""
    stream_queue_limit: Count = 1024
    """Entries that wait on one stream."""
    stream_history_limit: Count = 256
    """Ended entries that one stream remembers."""
    copy_history_limit: Count = 1024
    """Copies that one session remembers."""
    commands_per_submit_limit: Annotated[int, Field(ge=1, le=COMMANDS_MAXIMUM)] = 1024
    """Commands of one Submit."""
    inline_bytes_limit: Bytes = 64 * _KIB
    """Data of one Write or Read inside a Submit, bytes; over REST at most 140 KiB."""
    submit_bytes_limit: Bytes = _MIB
    """Data of all Writes and Reads of one Submit, bytes."""
    chunk_bytes: Annotated[int, Field(ge=256 * _KIB)] = 256 * _KIB
    """Largest chunk of a stream of bytes over gRPC, and piece in which a buffer is read over REST,
    bytes; a larger one holds up others' calls, and clients send chunks of 256 KiB."""
    request_ids_limit: Count = 1024
    """Answers that one session keeps for retries with the same request id."""
    retained_bytes_limit: Bytes = 4 * _MIB
    """Data that the kept answers of one session may hold, bytes."""
    name_length_limit: Count = 128
    """Characters of a request id or another name that a client chooses."""

    lease_default_s: Seconds = 30.0
    """Lease of a session that asks for none, seconds."""
    lease_maximum_s: Seconds = 3600.0
    """Longest lease, seconds."""
    wait_limit_s: Seconds = 300.0
    """Longest wait of one call, seconds; longer timeouts are cut to it."""
    watch_limit_s: Seconds = 600.0
    """Longest watch of a stream's history, seconds; whoever goes on asks again."""
    watch_quiet_limit_s: Seconds = 15.0
    """Silence of a watch after which its client gets a sign of life over REST, seconds."""
    call_time_limit_s: Seconds = 60.0
    """Device time of one call, which is stopped then, seconds, without pauses for other tenants."""
    worker_silence_limit_s: Seconds = 10.0
    """Silence after which a worker is killed and replaced, seconds; it is not ready after three
    tenths. A worker answers between the work units of a call, of which none takes a second."""
    worker_start_timeout_s: Seconds = 120.0
    """Time a worker may take until it is ready, seconds."""
    drain_timeout_s: Seconds = 10.0
    """Time that work and calls have to finish when the service ends, seconds; it ends then."""
    drain_quiet_s: Seconds = 1.0
    """Time without work and calls after which a session ends when the service does, seconds."""
    silent_client_limit_s: Seconds = 30.0
    """Silence after which a connection closes whose client answers no ping or has no open call
    (gRPC), sends no request or reads nothing (REST), and after which a call without its message or
    JSON ends, seconds."""
    connection_age_limit_s: Seconds = 1800.0
    """Age at which a gRPC connection takes no more calls and its client makes another, seconds."""
    health_interval_s: Seconds = 0.25
    """Time between two looks at the devices for grpc.health.v1, seconds."""

    directory_refresh_s: Seconds = 2.0
    """Time between two looks at the store for keys and tenants that changed, seconds."""
    unknown_key_interval_s: Seconds = 1.0
    """Time in which one address may show one more unknown key, seconds; others are too many."""
    unknown_keys_limit: Count = 20
    """Unknown keys that one address may show at once."""
    guessing_addresses_limit: Count = 1024
    """Addresses that are remembered for the unknown keys they showed."""
    audit_queue_limit: Count = 1024
    """Kinds of refused callers that wait for the store; more are counted and dropped."""
    audit_retention_days: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 365.0
    """Time after which entries of the audit are forgotten, days; how many is recorded."""

    local_requests_limit: Count = 64
    """Requests on the shared memory at once; one more ends the eldest of the user with most."""
    local_request_timeout_s: Seconds = 5.0
    """Time in which a client that connects to the shared memory has to ask, seconds."""
    tenant_calls_limit: Count = 512
    """Open calls of one tenant, over both APIs."""
    tenant_bytes_in_flight: Bytes = _GIB
    """bytes_in_flight of a tenant whose quota does not set it; an arriving message counts whole."""
    unauthenticated_calls_limit: Count = 64
    """Open calls without a key, half of them watches; as many more may be answered but unread."""
    unauthenticated_bytes_limit: Bytes = 64 * _MIB
    """Messages without a key that arrive, bytes in all; one of them always may."""
    message_bytes_limit: Bytes = 4 * _MIB
    """Largest gRPC message, bytes."""
    head_bytes_limit: Bytes = 32 * _KIB
    """Path and headers of one REST request, bytes; a piece that is read at once may exceed it."""
    headers_limit: Count = 100
    """Headers of one REST request."""
    target_bytes_limit: Bytes = 8 * _KIB
    """Path and query of one REST request, bytes; no path has more than 2048."""
    chunk_framing_bytes_limit: Bytes = _MIB
    """Sizes of chunks, extensions and trailers of one REST body, bytes; a chunk has at least 5."""
    connections_per_address_limit: Annotated[int, Field(ge=2)] = 512
    """REST connections of one address at once; tenants' calls have at most 15 of 16 of them."""
    connections_limit: Annotated[int, Field(ge=2)] = 1024
    """Connections at once of each API; over REST tenants' calls have at most 15 of 16 of them."""
    streams_per_connection_limit: Count = 512
    """Calls at the same time on one gRPC connection."""
    metadata_bytes_limit: Bytes = 16 * _KIB
    """Metadata of one gRPC call, bytes."""
    handshake_timeout_s: Seconds = 10.0
    """Time in which a new connection has to agree on TLS and HTTP/2, seconds."""
    body_bytes_limit: Bytes = 4 * _MIB
    """Largest JSON body on the REST API, bytes."""
    run_bytes_limit: Bytes = 256 * _MIB
    """Largest one-shot call, bytes: its body, its arrays unpacked, and its answer, each."""
    run_arrays_limit: Count = 64
    """Arrays of one one-shot call."""
    concurrent_runs_limit: Count = 4
    """One-shot calls that compute at the same time; more wait, and tenants take turns by weight.
    One tenant has at most one less, so that a call of another tenant begins at once."""
    tenant_runs_waiting_limit: Count = 16
    """One-shot calls of one tenant that wait."""
    uploads_bytes_limit: Bytes = 2 * _GIB
    """Bodies of one-shot calls and of outputs to be judged that lie in temporary files, of all
    tenants together, bytes; one tenant has at most as many as all together leave free."""

    conformance_processes: Count = 1
    """Processes that draw inputs of conformance cases and judge outputs, one call each at a time;
    the first such call starts them, and each takes about 100 MB."""
    conformance_elements_limit: Count = 4 * _MIB
    """Elements of one tensor of a case that is drawn or judged."""
    conformance_multiply_adds_limit: Count = 1_000_000_000
    """Products of all outputs of a judged case; the reference device computes them twice."""
    conformance_sent_bytes_limit: Bytes = 64 * _MIB
    """Outputs that one tenant sent to be judged, and verdicts on them, that are kept in memory so
    that they need not be sent again, bytes; those not used for longest go."""
    conformance_sent_total_bytes_limit: Bytes = 512 * _MIB
    """The same of all tenants together, bytes: those go of the tenant that has most of them."""
    conformance_runs_limit: Count = 2
    """Suites that one tenant runs at once."""
    conformance_history_limit: Count = 200
    """Runs of suites that are kept of one tenant; the oldest without a name go."""
    conformance_baselines_limit: Count = 50
    """Names that one tenant gives to runs, each of which is kept."""
    conformance_report_bytes_limit: Bytes = 8 * _MIB
    """Largest run that was judged elsewhere, bytes over gRPC; over REST it is a JSON body."""
    expected_values_folder: Folder = Field(default_factory=_default_expected_values_folder)
    """Where expected values are kept. The default is opserve/service-expected-values in
    $XDG_CACHE_HOME, or else in ~/.cache; a folder that cannot be written keeps none.
    `opserve conform` has a folder of its own. The smallest limit of all users of a folder holds."""
    expected_values_bytes_limit: Bytes = _GIB
    """Expected values that are kept, bytes; those not used for longest go."""

    @model_validator(mode="after")
    def _tags_devices_that_are(self) -> Self:
        names = device_names(self.devices)
        for name in self.device_tags:
            if name not in names:
                raise ValueError(f"device_tags: given {name}, allowed {', '.join(names)}")
        return self

    @model_validator(mode="after")
    def _has_whole_tls(self) -> Self:
        if bool(self.tls_certificate_file) != bool(self.tls_key_file):
            raise ValueError("tls_certificate_file: allowed together with tls_key_file alone")
        if self.client_ca_file and not self.tls_certificate_file:
            raise ValueError("client_ca_file: allowed together with tls_certificate_file alone")
        return self

    @model_validator(mode="after")
    def _keeps_plain_text_on_this_machine(self) -> Self:
        for name in ("grpc_address", "rest_address"):
            address = getattr(self, name)
            safe = self.tls_certificate_file or self.allow_plaintext or is_loopback(address)
            if not safe:
                raise ValueError(
                    f"{name}: given {address}, which other machines can reach, allowed loopback "
                    f"addresses without TLS: set {PREFIX}TLS_CERTIFICATE_FILE and "
                    f"{PREFIX}TLS_KEY_FILE, or {PREFIX}ALLOW_PLAINTEXT=true behind a proxy that "
                    "has TLS"
                )
        return self


RENAMED = {
    "OPSERVE_CONCURRENT_CALLS_LIMIT": "OPSERVE_TENANT_CALLS_LIMIT",
    "OPSERVE_GOLDEN_BYTES_LIMIT": "OPSERVE_EXPECTED_VALUES_BYTES_LIMIT",
    "OPSERVE_GOLDEN_FOLDER": "OPSERVE_EXPECTED_VALUES_FOLDER",
    "OPSERVE_LOCAL_LANE": "OPSERVE_SHARED_MEMORY",
}
"""Present names by those of earlier releases, as in CHANGELOG's tables Renamed."""


def settings_of_environment() -> Settings:
    """The settings as they are set.

    Raises:
        SettingRefused: One of them is out of bounds, or set by a name of an earlier release.
    """
    for old in RENAMED.keys() & {name.upper() for name in os.environ}:
        raise SettingRefused(f"{old} has no effect any more: set {RENAMED[old]} instead")
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if not first["loc"]:  # found by a rule of our own on several settings, which says it all
            raise SettingRefused(allowed(first, Settings)) from None
        name = str(first["loc"][0])
        given = _shown(name, first["input"])
        told = f"{name}: given {given}, allowed {allowed(first, Settings)}"
        raise SettingRefused(f"{told}; set by {where_set(name)}") from None
    except SettingsError:
        # pydantic-settings keeps the name to its words: it is one of those that are no JSON.
        name = next(name for name in _JSON_FORMS if not _is_json(os.environ.get(_variable(name))))
        told = f"{name}: given {os.environ[_variable(name)]}, allowed {_JSON_FORMS[name]}"
        raise SettingRefused(f"{told}; set by {where_set(name)}") from None


_JSON_FORMS = {
    "devices": f"""a JSON list of profiles, such as '["{DEFAULT_PROFILE}"]'""",
    "device_tags": f"""tags by device, as JSON, such as '{{"{DEFAULT_PROFILE}-0": ["quiet"]}}'""",
}


def _is_json(text: str | None) -> bool:
    try:
        json.loads(text or "null")
    except ValueError:
        return False
    return True


def _variable(name: str) -> str:
    return f"{PREFIX}{name.upper()}"


def _shown(name: str, given: object) -> object:
    """What was given, unless it is a secret."""
    secret = Settings.model_fields[name].annotation is SecretStr
    return "a text that is not shown" if secret else given


def where_set(name: str) -> str:
    """Where a setting is chosen: "OPSERVE_DEVICES or --device"."""
    return " or ".join([_variable(name), *filter(None, [OPTIONS.get(name)])])
