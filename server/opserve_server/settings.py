"""All settings of the service, with units and defaults."""

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
from opserve_kernels.errors import InvalidArgument, rejection
from opserve_kernels.profiles import DEFAULT_PROFILE, PROFILES, profile_named
from opserve_kernels.user_input import bytes_of, choices, similar_name
from opserve_server.addresses import check_issuer, host_and_port, is_loopback
from opserve_server.allowed_values import allowed
from opserve_server.store.location import File, default_url, location_of

_KIB = 1024
_MIB = 1024 * _KIB
_GIB = 1024 * _MIB
COMMANDS_MAXIMUM = 2**14
"""Commands of one Submit, whatever the setting: a JSON document with more is not read."""
THREADS_LIMIT = 8
"""Threads of a device; the data of all of them must fit one packet."""
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
"""Settings that are also options of `opserve serve`."""
CLIENT_VARIABLES = ("OPSERVE_ADDRESS", "OPSERVE_ALLOW_PLAINTEXT", "OPSERVE_API_KEY", "OPSERVE_CA")
"""Variables of the client, which a service may find in its environment."""
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104  # they are recognised, not bound
"""Addresses that a server binds and no client calls."""
_TYPO = 0.8
"""Least similarity of a variable to a setting that makes it a misspelt one. Others are left alone:
a cluster sets OPSERVE_SERVICE_HOST, and tools have variables of their own."""


class SettingRefused(Exception):
    """A setting that the service cannot run with; the message is one line for the user."""


def device_names(profiles: Sequence[str]) -> list[str]:
    """Names of devices by profile and number: "ascend910b-0"."""
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
        raise ValueError(f"the profiles {choices(PROFILES, name)}") from error


def _an_issuer(url: str) -> str:
    check_issuer(url)
    return url


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


def _bytes(given: object) -> object:
    return bytes_of(given) if isinstance(given, str) else given


Address = Annotated[str, AfterValidator(_an_address)]
Folder = Annotated[Path, BeforeValidator(_a_folder)]
StoreUrl = Annotated[SecretStr, AfterValidator(_a_store)]
Tag = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Tags = dict[str, Annotated[list[Tag], Field(max_length=TAGS_LIMIT)]]
LogFormat = Literal["auto", "text", "json"]
Count = Annotated[int, Field(ge=1)]
Bytes = Annotated[int, BeforeValidator(_bytes), Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseSettings):
    """Settings of the service, read from environment variables with the prefix OPSERVE_.

    A list is written as JSON: OPSERVE_DEVICES='["ascend910b", "ascend910b"]'. A number of bytes may
    have a unit: 1GiB.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )

    grpc_address: Address = "127.0.0.1:50051"
    """Address of the gRPC API, host:port; port 0 selects a free one."""
    rest_address: Address = "127.0.0.1:8080"
    """Address of the REST API, host:port; port 0 selects a free one."""
    tls_certificate_file: str = ""
    """Certificate chain of the service, PEM; empty: plain text without TLS."""
    tls_key_file: str = ""
    """Private key of that certificate, PEM, without a password."""
    client_ca_file: str = ""
    """Certificate authorities, PEM; every client must present a certificate of one of them. Empty:
    no client certificates."""
    allow_plaintext: bool = False
    """Whether other machines may reach the service without TLS, as behind a proxy that has it."""
    shared_memory: bool = True
    """Whether clients on this host map the memory of their sessions instead of copying it."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """Least level of logged messages: DEBUG, INFO, WARNING or ERROR."""
    log_format: LogFormat = "auto"
    """Format of log lines on standard error: text for people, json for programs; auto selects text
    on a terminal and json elsewhere."""

    store_url: StoreUrl = Field(default_factory=_default_store)
    """Store of tenants, keys, usage, audit and runs of suites: sqlite:///file, or
    postgresql://user:password@host/database, made by `opserve bootstrap`; empty, only with no_keys,
    stores nothing. Default: opserve/opserve.db in $XDG_STATE_HOME or else ~/.local/state."""
    no_keys: bool = False
    """Whether callers need no key, even if the store has keys; allowed on loopback addresses only.
    Otherwise a key is required if store_url is set, or once the default store has had a key."""
    identity_issuers: list[Annotated[str, AfterValidator(_an_issuer)]] = [
        "https://token.actions.githubusercontent.com",
        "https://gitlab.com",
    ]
    """Issuers whose tokens administrators may trust. The service fetches the public keys of those
    that a trusted identity names, and of no other, over HTTPS."""
    issuer_keys_interval_s: Seconds = 30.0
    """Least time between two fetches of the keys of one issuer, seconds."""
    issuer_keys_age_limit_s: Seconds = 86_400.0
    """Age after which the keys of an issuer that does not answer are no longer used, seconds; the
    service fetches them again after a twentieth of it."""
    issuer_timeout_s: Seconds = 5.0
    """Longest fetch of the keys of an issuer, seconds."""
    verified_tokens_limit: Count = 1024
    """Verified tokens kept until they expire; the least recently used is verified again."""
    store_connections_limit: Count = 4
    """Open connections to the store at once."""
    store_timeout_s: Seconds = 5.0
    """Longest wait for the store: for a connection, a lock or a statement, seconds."""

    farm_name: Annotated[str, Field(pattern=r"^([a-z0-9-]{1,32})?$")] = ""
    """Name of this service in a farm: services that share one store on PostgreSQL and move clients
    to a device of any of them. 1 to 32 of a-z, 0-9 and -. Empty: a service of its own."""
    farm_host: str = ""
    """Host name under which clients and the other services of a farm reach both addresses; by
    default the host of the address."""
    farm_lease_s: Annotated[float, Field(ge=1, le=600)] = 10.0
    """Time without a renewal after which a service disappears from the farm, seconds. It renews
    five times in that time, at least every 2 s."""

    devices: Annotated[list[Annotated[str, AfterValidator(_a_profile)]], Field(min_length=1)] = (
        list(PROFILES)
    )
    """Profiles of the virtual devices, one entry per device; a worker takes about 3 MB."""
    device_memory_bytes: Bytes = _GIB
    """Memory of each device, bytes."""
    device_threads: Annotated[int, Field(ge=1, le=THREADS_LIMIT)] = 1
    """Threads that a call may run on; the devices share the machine's cores, so one unless set."""
    device_tags: Tags = {}
    """Tags that sessions can require, by name of the device, which is its profile and its number
    among those of that profile: {"ascend910b-0": ["lab", "quiet"]}."""
    slab_bytes: Bytes = 16 * _MIB
    """Size of a slab, the unit in which a session takes device memory, bytes."""

    sessions_limit: Count = 256
    """Open sessions at once."""
    device_sessions_limit: Count = 256
    """Open sessions at once on one device."""
    exclusive_limit_s: Seconds = 3600.0
    """Time after which an exclusive session ends, even if its client works, seconds."""
    waiting_limit: Count = 256
    """Requests in the device queue, of all tenants."""
    tenant_waiting_limit: Count = 16
    """Requests in the device queue, of one tenant."""
    device_wait_limit_s: Seconds = 3600.0
    """Longest wait for a device, over many calls, seconds; longer ones are cut to it."""
    waiting_return_s: Seconds = 5.0
    """Time for which a waiting client keeps its position in the device queue between two calls,
    seconds."""
    priority_step_s: Seconds = 60.0
    """Waiting time that one step of priority is worth, seconds."""
    buffers_limit: Count = 4096
    """Live buffers of one session."""
    executors_limit: Count = 4096
    """Live executors of one session."""
    plans_limit: Count = 128
    """Plans kept for one tenant and profile, so that an equal call is not planned again."""
    streams_limit: Count = 64
    """Live streams of one session."""
    events_limit: Count = 4096
    """Live events of one session."""
    stream_queue_limit: Count = 1024
    """Entries waiting on one stream."""
    stream_history_limit: Count = 256
    """Completed entries kept by one stream."""
    copy_history_limit: Count = 1024
    """Copies kept in the history of one session."""
    commands_per_submit_limit: Annotated[int, Field(ge=1, le=COMMANDS_MAXIMUM)] = 1024
    """Commands of one Submit."""
    inline_bytes_limit: Bytes = 64 * _KIB
    """Data of one Write or Read inside a Submit, bytes; over REST at most 140 KiB."""
    submit_bytes_limit: Annotated[Bytes, Field(ge=128 * _KIB)] = _MIB
    """Data of all Writes and Reads of one Submit, and of all tensors and of all outputs of one Run,
    bytes."""
    chunk_bytes: Annotated[Bytes, Field(ge=256 * _KIB)] = 256 * _KIB
    """Largest chunk of a stream of bytes over gRPC, and piece in which a buffer is read over REST,
    bytes; a larger one delays other calls, and clients send chunks of 256 KiB."""
    request_ids_limit: Count = 1024
    """Answers that one session keeps for retries with the same request id."""
    retained_bytes_limit: Bytes = 4 * _MIB
    """Data of the kept answers of one session, bytes."""
    name_length_limit: Count = 128
    """Characters of a request id or another name of a client."""

    lease_default_s: Seconds = 30.0
    """Lease of a session that requests none, seconds."""
    lease_maximum_s: Seconds = 3600.0
    """Longest lease, seconds."""
    wait_limit_s: Seconds = 300.0
    """Longest wait of one call, seconds; longer timeouts are cut to it."""
    watch_limit_s: Seconds = 600.0
    """Longest watch of a stream's history or of the service's state, seconds; clients then watch
    again."""
    watch_quiet_limit_s: Seconds = 15.0
    """Time without an entry or a change after which a watch over REST sends a keep-alive,
    seconds."""
    tenant_watches_limit: Count = 32
    """Watches of the service's state by one tenant; all tenants together have at most 256."""
    call_time_limit_s: Seconds = 60.0
    """Device time after which a call is stopped, seconds, without pauses for other tenants."""
    worker_silence_limit_s: Seconds = 10.0
    """Silence after which a worker is killed and replaced, seconds; after three tenths of it the
    device is not ready. A worker answers between the work units of a call, none of which takes a
    second."""
    worker_start_timeout_s: Seconds = 120.0
    """Time until a worker must be ready, seconds."""
    drain_timeout_s: Seconds = 10.0
    """Time for work and calls to complete when the service ends, seconds; the rest is ended."""
    drain_quiet_s: Seconds = 1.0
    """Time without work and calls after which a draining service ends a session, seconds."""
    silent_client_limit_s: Seconds = 30.0
    """Silence after which a connection closes, seconds: without an answered ping or an open call
    (gRPC), without a request or reading (REST). A call without its message or JSON ends after the
    same time."""
    connection_age_limit_s: Seconds = 1800.0
    """Age after which a gRPC connection accepts no more calls and its client reconnects,
    seconds."""
    health_interval_s: Seconds = 0.25
    """Time between two checks of the devices for grpc.health.v1, seconds."""

    directory_refresh_s: Seconds = 2.0
    """Time between two reads of keys and tenants from the store, seconds."""
    unknown_key_interval_s: Seconds = 1.0
    """Time after which one address may send one more unknown key, seconds."""
    unknown_keys_limit: Count = 20
    """Unknown keys that one address may send at once."""
    guessing_addresses_limit: Count = 1024
    """Addresses whose unknown keys are counted."""
    audit_queue_limit: Count = 1024
    """Kinds of rejected callers that wait for the store; more are counted and dropped."""
    audit_retention_days: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 365.0
    """Age at which audit entries are deleted, days; their number is recorded."""

    local_requests_limit: Count = 64
    """Requests on the shared-memory socket at once; one more ends the oldest of the user with
    most."""
    local_request_timeout_s: Seconds = 5.0
    """Time until a connected client of the shared memory must send its request, seconds."""
    tenant_calls_limit: Count = 512
    """Open calls of one tenant, over all APIs."""
    tenant_bytes_in_flight: Bytes = _GIB
    """bytes_in_flight of a tenant whose quota does not set it; an arriving message counts in
    full."""
    unauthenticated_calls_limit: Count = 64
    """Open calls without a key, half of them watches; as many more may be answered but unread."""
    unauthenticated_bytes_limit: Bytes = 64 * _MIB
    """Total bytes of arriving messages without a key; one message is always allowed."""
    message_bytes_limit: Bytes = 4 * _MIB
    """Largest message over gRPC and Connect, bytes."""
    head_bytes_limit: Bytes = 32 * _KIB
    """Path and headers of one REST request, bytes; a single read may exceed it."""
    headers_limit: Count = 100
    """Headers of one REST request."""
    target_bytes_limit: Bytes = 8 * _KIB
    """Path and query of one REST request, bytes; no route has more than 2048."""
    chunk_framing_bytes_limit: Bytes = _MIB
    """Sizes of chunks, extensions and trailers of one REST body, bytes; a chunk has at least 5."""
    connections_per_address_limit: Annotated[int, Field(ge=2)] = 512
    """REST connections of one address at once; calls of tenants use at most 15 of 16 of them."""
    connections_limit: Annotated[int, Field(ge=2)] = 1024
    """Connections of each API at once; over REST calls of tenants use at most 15 of 16 of them."""
    streams_per_connection_limit: Count = 512
    """Calls at the same time on one gRPC connection."""
    metadata_bytes_limit: Bytes = 16 * _KIB
    """Metadata of one gRPC call, bytes."""
    handshake_timeout_s: Seconds = 10.0
    """Time for a new connection to complete TLS and HTTP/2 handshakes, seconds."""
    body_bytes_limit: Bytes = 4 * _MIB
    """Largest JSON body on the REST API, bytes."""
    run_bytes_limit: Bytes = 256 * _MIB
    """Largest one-shot call, bytes, for each of its body, its unpacked arrays and its answer."""
    run_arrays_limit: Count = 64
    """Arrays of one one-shot call."""
    concurrent_runs_limit: Count = 4
    """One-shot calls that compute at once; more wait, shared fairly among tenants by weight. One
    tenant has at most one less, so that a call of another tenant begins at once."""
    tenant_runs_waiting_limit: Count = 16
    """Waiting one-shot calls of one tenant."""
    uploads_bytes_limit: Bytes = 2 * _GIB
    """Bodies of one-shot calls and submitted outputs in temporary files, of all tenants together,
    bytes; one tenant has at most as many as all together leave free."""

    conformance_processes: Count = 1
    """Processes that draw inputs of conformance cases and judge outputs, one call each at a time;
    the first such call starts them, and each takes about 100 MB."""
    conformance_elements_limit: Count = 4 * _MIB
    """Elements of one tensor of a case that is drawn or judged."""
    conformance_multiply_adds_limit: Count = 1_000_000_000
    """Products of all outputs of a judged case; the reference device computes them twice."""
    conformance_sent_bytes_limit: Bytes = 64 * _MIB
    """Submitted outputs and verdicts of one tenant kept in memory, so that they need not be sent
    again, bytes; the least recently used are dropped."""
    conformance_sent_total_bytes_limit: Bytes = 512 * _MIB
    """The same for all tenants together, bytes; those of the tenant with most are dropped."""
    conformance_runs_limit: Count = 2
    """Suites that one tenant runs at once."""
    conformance_history_limit: Count = 200
    """Runs of suites kept for one tenant; the oldest without a name are deleted."""
    conformance_baselines_limit: Count = 50
    """Named runs of one tenant, each of which is kept."""
    conformance_report_bytes_limit: Bytes = 8 * _MIB
    """Largest reported run, bytes over gRPC; over REST it is a JSON body."""
    expected_values_folder: Folder = Field(default_factory=_default_expected_values_folder)
    """Folder of expected values. The default is opserve/service-expected-values in $XDG_CACHE_HOME,
    or else in ~/.cache; a folder that is not writable keeps none. `opserve conform` has a folder of
    its own. The smallest limit among the users of a folder applies."""
    expected_values_bytes_limit: Bytes = _GIB
    """Expected values kept, bytes; the least recently used are deleted."""

    @model_validator(mode="after")
    def _tags_devices_that_are(self) -> Self:
        names = device_names(self.devices)
        for name in self.device_tags:
            if name not in names:
                raise ValueError(rejection("device_tags", given=name, allowed=", ".join(names)))
        return self

    @model_validator(mode="after")
    def _can_be_in_a_farm(self) -> Self:
        if not self.farm_name:
            return self
        url = self.store_url.get_secret_value()
        if not url or isinstance(location_of(url), File):
            raise ValueError(
                "farm_name needs a store that services on several machines share: set "
                f"{PREFIX}STORE_URL to postgresql://user:password@host/database."
            )
        for name in ("grpc_address", "rest_address"):
            host, _ = host_and_port(getattr(self, name))
            if not self.farm_host and host in _WILDCARDS:
                raise ValueError(
                    f"{name} is {getattr(self, name)}, which clients cannot call: set "
                    f"{PREFIX}FARM_HOST to the name of this machine."
                )
        return self

    @model_validator(mode="after")
    def _has_whole_tls(self) -> Self:
        if bool(self.tls_certificate_file) != bool(self.tls_key_file):
            raise ValueError(
                "tls_certificate_file and tls_key_file belong together: set both, or neither."
            )
        if self.client_ca_file and not self.tls_certificate_file:
            raise ValueError("client_ca_file needs tls_certificate_file: set both.")
        return self

    @model_validator(mode="after")
    def _keeps_plain_text_on_this_machine(self) -> Self:
        for name in ("grpc_address", "rest_address"):
            address = getattr(self, name)
            safe = self.tls_certificate_file or self.allow_plaintext or is_loopback(address)
            if not safe:
                raise ValueError(
                    f"{name} is {address}, which other machines can reach, without TLS: use a "
                    f"loopback address, set {PREFIX}TLS_CERTIFICATE_FILE and {PREFIX}TLS_KEY_FILE, "
                    f"or set {PREFIX}ALLOW_PLAINTEXT=true behind a proxy that has TLS."
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
    """The settings of the environment.

    Raises:
        SettingRefused: A setting is out of bounds, misspelt, or set by a name of an earlier
            release.
    """
    for old in RENAMED.keys() & {name.upper() for name in os.environ}:
        raise SettingRefused(f"{old} has no effect any more: set {RENAMED[old]} instead.")
    _check_names(name.upper() for name in os.environ)
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if not first["loc"]:  # our own rule on several settings has a full message
            raise SettingRefused(allowed(first, Settings)) from None
        name = str(first["loc"][0])
        raise _refused(name, _shown(name, first["input"]), allowed(first, Settings)) from None
    except SettingsError:
        # pydantic-settings names the setting only in its message: it is one that is not JSON.
        name = next(name for name in _JSON_FORMS if not _is_json(os.environ.get(_variable(name))))
        raise _refused(name, os.environ[_variable(name)], _JSON_FORMS[name]) from None


def _refused(name: str, given: object, wanted: str) -> SettingRefused:
    problem = rejection(name, given=given, allowed=wanted)
    return SettingRefused(f"{problem} Set it by {where_set(name)}.")


def _check_names(variables: Iterable[str]) -> None:
    """Rejects a misspelt setting, whose value would be ignored."""
    known = [*map(_variable, Settings.model_fields), *CLIENT_VARIABLES]
    ends = [name.removeprefix(PREFIX) for name in known]
    for variable in variables:
        if variable.startswith(PREFIX) and variable not in known:
            likely = similar_name(variable.removeprefix(PREFIX), ends, least=_TYPO)
            if likely:
                raise SettingRefused(
                    f"{variable} is no setting and has no effect; did you mean {PREFIX}{likely}?"
                )


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
    """The given value, unless it is a secret."""
    secret = Settings.model_fields[name].annotation is SecretStr
    is_shown = not secret or _FILE.fullmatch(str(given))
    return given if is_shown else "its value, which may contain a password"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSetting:
    """A setting whose value is not the default.

    Attributes:
        name: Its variable.
        value: Its value as text, without secrets.
        default: The default as text.
    """

    name: str
    value: str
    default: str


def changed_settings(settings: "Settings") -> list[ChangedSetting]:
    """The settings whose values are not their defaults, by name."""
    found: list[ChangedSetting] = []
    for name, field in sorted(Settings.model_fields.items()):
        value, default = getattr(settings, name), field.get_default(call_default_factory=True)
        if value != default:
            shown = [
                _shown(name, one.get_secret_value() if isinstance(one, SecretStr) else one)
                for one in (value, default)
            ]
            texts = [one if isinstance(one, str) else json.dumps(one, default=str) for one in shown]
            found.append(ChangedSetting(name=_variable(name), value=texts[0], default=texts[1]))
    return found


_FILE = re.compile(r"[\w./~-]*")
"""A text without a password: the path of a file, for example."""


def where_set(name: str) -> str:
    """Variable and option of a setting: "OPSERVE_DEVICES or --device"."""
    return " or ".join([_variable(name), *filter(None, [OPTIONS.get(name)])])
