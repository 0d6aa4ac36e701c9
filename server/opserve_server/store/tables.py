"""The tables of the store; `migrations` makes them, and a test compares the two."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

TENANTS = Table(
    "tenants",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("weight", Integer, nullable=False),
    Column("priority_limit", Integer, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("deleted_at", Double),  # the row stays, so that its name is never used again
    # The quota: a column for each Resource.
    Column("device_memory_bytes", BigInteger),
    Column("sessions", BigInteger),
    Column("buffers", BigInteger),
    Column("executors", BigInteger),
    Column("streams", BigInteger),
    Column("queued_entries", BigInteger),
    Column("calls_per_s", Double),
    Column("bytes_in_flight", BigInteger),
    Column("device_seconds_per_day", Double),
)

KEYS = Table(
    "keys",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("sha256", LargeBinary, nullable=False, unique=True),
    Column("tenant", Text, ForeignKey(TENANTS.c.name), nullable=False, index=True),
    Column("principal", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    Column("last_used_at", Double),
)

CERTIFICATES = Table(
    "certificates",
    METADATA,
    Column("subject", Text, primary_key=True),
    Column("tenant", Text, ForeignKey(TENANTS.c.name), nullable=False, index=True),
    Column("principal", Text, nullable=False),
    Column("scopes", Text, nullable=False),
)

IDENTITIES = Table(
    "identities",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("issuer", Text, nullable=False),
    Column("audience", Text, nullable=False),
    Column("claims", Text, nullable=False),  # a list in JSON
    Column("tenant", Text, ForeignKey(TENANTS.c.name), nullable=False, index=True),
    Column("principal", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created_at", Double, nullable=False),
)

# One row: a counter that grows with every change of the tables above.
CHANGES = Table("changes", METADATA, Column("number", BigInteger, nullable=False))

# Usage and audit may name tenants without a row: callers of a service without keys.
USAGE = Table(
    "usage",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("profile", Text, primary_key=True),
    Column("device_s", Double, nullable=False),
    Column("calls", BigInteger, nullable=False),
)

# The last flush of usage of each process, so that none is added twice.
FLUSHES = Table(
    "flushes",
    METADATA,
    Column("writer", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("at", Double, nullable=False),
)

AUDIT = Table(
    "audit",
    METADATA,
    # SQLite numbers rows only by columns of the type INTEGER.
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at", Double, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("face", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Index(None, "at", "id"),
    Index(None, "tenant", "at", "id"),
    sqlite_autoincrement=True,  # numbers of deleted entries are not reused
)

CONFORMANCE_RUNS = Table(
    "conformance_runs",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("suite", Text, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("profile", Text, nullable=False),
    Column("operator", Text, nullable=False),
    Column("match", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("cases", Integer, nullable=False),
    Column("counts", Text, nullable=False),
    Column("worst", Double, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("seen_at", Double, nullable=False),
    Column("ended_at", Double),
    # Runs of older services lack these columns.
    Column("repeats", Integer, nullable=False, server_default="1"),
    Column("standards", Text, nullable=False, server_default="[]"),
    Column("gates", Text, nullable=False, server_default="[]"),
    Column("deterministic_level", Text, nullable=False, server_default="DETERMINISTIC"),
    Column("origin", Text, nullable=False, server_default="DEVICE"),
    Column("tool", Text, nullable=False, server_default=text("''")),
    Column("accuracy", Text, nullable=False, server_default="direct"),
    Column("documented_rules", Text, nullable=False, server_default="error"),
    Column("kernel_variant", Text, nullable=False, server_default=text("''")),
    Index(None, "tenant", "created_at", "id"),
)

CONFORMANCE_RESULTS = Table(
    "conformance_results",
    METADATA,
    Column("run", Text, ForeignKey(CONFORMANCE_RUNS.c.id, ondelete="CASCADE"), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("case", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("worst", Double, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("verdict", Text, nullable=False),
)

CONFORMANCE_BASELINES = Table(
    "conformance_baselines",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("run", Text, ForeignKey(CONFORMANCE_RUNS.c.id), nullable=False, index=True),
    Column("set_at", Double, nullable=False),
)

# Services of a farm, on PostgreSQL alone. A row stays after its service ends: its epoch only grows.
SERVICES = Table(
    "services",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("instance", Text, nullable=False),
    Column("grpc_address", Text, nullable=False),
    Column("http_address", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("contract", Text, nullable=False),
    Column("kernel_variant", Text, nullable=False),
    Column("drains", Boolean, nullable=False),
    Column("devices", Text, nullable=False),  # in JSON
    Column("uses", Text, nullable=False),  # in JSON
    Column("lease_until", Double, nullable=False),  # by the clock of the database
    Column("changed_at", Double, nullable=False),  # by the same clock: when anything else changed
)

# Session requests that wait in a farm. All times are those of the clock of the database.
WAITING = Table(
    "waiting",
    METADATA,
    Column("tenant", Text, primary_key=True),
    Column("request", Text, primary_key=True),
    Column("rank", Double, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("profile", Text, nullable=False),
    Column("tags", Text, nullable=False),  # in JSON
    Column("exclusive", Boolean, nullable=False),
    Column("connected", Boolean, nullable=False),
    Column("stays", Boolean, nullable=False),
    Column("service", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("until", Double, nullable=False),
    Column("claimed_by", Text, nullable=False),
    Column("claimed_until", Double, nullable=False),
    Index(None, "profile", "rank"),
)
