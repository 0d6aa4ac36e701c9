"""opserve apply: the differences between a file and a service, and their application."""

import json
import stat
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from typer.testing import CliRunner, Result

from opserve.v1 import admin_service_pb2 as messages
from opserve.v1.usage_service_pb2 import GetUsageResponse
from opserve_client import cli, cli_apply
from opserve_client.errors import OpserveError, unreachable
from opserve_server.admin_rules import PRIORITY_LIMITS, WEIGHTS
from opserve_server.core.principal import Scope
from opserve_server.core.tenants import Resource

TEAMS = """
tenants:
  vision:
    weight: 3
    quota: {sessions: 8, calls_per_s: 500}
    keys:
      laptop: {days: 90, file: vision.key}
      dashboard: {scopes: [metrics]}
    identities:
      - issuer: https://ci.farm
        audience: opserve
        claims: {repository: farm/vision}
        principal: ci
  speech:
"""
ISSUER = "https://ci.farm"


class Farm:
    """A service with the calls of administration that the command makes; a client of itself."""

    def __init__(self) -> None:
        self.tenants = {"admin": messages.Tenant(name="admin", weight=1)}
        self.keys: list[messages.Key] = []
        self.identities: list[messages.TrustedIdentity] = []
        self.calls: list[str] = []
        self.failures: dict[str, BaseException] = {}
        self.add_key("admin", "root", ["operate", "admin"])

    @property
    def admin(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def get_usage(self) -> GetUsageResponse:
        return GetUsageResponse(tenant="admin")

    def list_tenants(self) -> list[messages.Tenant]:
        return list(self.tenants.values())

    def list_keys(self) -> list[messages.Key]:
        return self.keys

    def list_identities(self) -> list[messages.TrustedIdentity]:
        return self.identities

    def add_key(
        self, tenant: str, principal: str, scopes: Sequence[str], **times: float
    ) -> messages.Key:
        number = f"{len(self.keys):08x}"
        key = messages.Key(id=number, tenant=tenant, principal=principal, scopes=scopes, **times)
        self.keys.append(key)
        return key

    def change(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failures:
            raise self.failures.pop(name)

    def create_tenant(
        self,
        name: str,
        *,
        weight: int | None,
        priority_limit: int | None,
        quota: Mapping[str, Any],
    ) -> None:
        self.change(f"create {name}")
        self.tenants[name] = messages.Tenant(
            name=name,
            weight=weight or 1,
            priority_limit=priority_limit or 0,
            quota=messages.Quota(**quota),
        )

    def update_tenant(
        self, name: str, *, quota: Mapping[str, Any] | None = None, **members: Any
    ) -> None:
        self.change(f"update {name}")
        tenant = self.tenants[name]
        for member, value in members.items():
            if value is not None:
                setattr(tenant, member, value)
        for resource, limit in (quota or {}).items():
            if limit is None:
                tenant.quota.ClearField(resource)  # type: ignore[arg-type]  # one of its fields
            else:
                setattr(tenant.quota, resource, limit)

    def delete_tenant(self, name: str) -> None:
        self.change(f"delete {name}")
        del self.tenants[name]

    def create_key(
        self, tenant: str, principal: str, *, scopes: Sequence[str], lifetime_s: float | None
    ) -> messages.CreateKeyResponse:
        self.change(f"key {tenant}/{principal} {lifetime_s}")
        key = self.add_key(tenant, principal, scopes)
        return messages.CreateKeyResponse(key=key, text=f"secret{key.id}")

    def revoke_key(self, key: str) -> None:
        self.change(f"revoke {key}")
        self.keys = [one for one in self.keys if one.id != key]

    def add_identity(
        self,
        issuer: str,
        *,
        audience: str,
        claims: Mapping[str, str],
        tenant: str,
        principal: str,
        scopes: Sequence[str],
    ) -> None:
        self.change(f"trust {tenant}/{principal}")
        pairs = [f"{name}={value}" for name, value in claims.items()]
        self.identities.append(
            messages.TrustedIdentity(
                id=f"{len(self.identities)}",
                issuer=issuer,
                audience=audience,
                claims=pairs,
                tenant=tenant,
                principal=principal,
                scopes=scopes,
            )
        )

    def remove_identity(self, identity: str) -> None:
        self.change(f"distrust {identity}")
        self.identities = [one for one in self.identities if one.id != identity]


pytestmark = pytest.mark.usefixtures("farm")


@pytest.fixture
def farm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Farm:
    there = Farm()

    def connected(*_: object) -> Farm:
        return there

    monkeypatch.setattr(cli_apply, "connected", connected)
    monkeypatch.chdir(tmp_path)
    return there


def apply(text: str, *options: str, answer: str | None = None) -> Result:
    Path("teams.yaml").write_text(textwrap.dedent(text))
    return CliRunner().invoke(cli.app, ["apply", "teams.yaml", *options], input=answer)


def test_a_file_is_applied_after_its_differences_are_shown(farm: Farm) -> None:
    result = apply(TEAMS, "--yes")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[:5] == [
        "+ tenant vision: weight 3, sessions 8, calls_per_s 500",
        "+ tenant speech",
        "+ key vision/laptop: operate, expires after 90 days, in vision.key",
        "+ key vision/dashboard: metrics, never expires, shown once",
        f"+ identity {ISSUER} opserve repository=farm/vision: for vision/ci (operate)",
    ]
    assert lines[5:] == ["secret00000002"], "the key without a file"
    assert "vision/dashboard" in result.stderr
    assert farm.calls == [
        *("create vision", "create speech", "key vision/laptop 7776000.0"),
        *("key vision/dashboard None", "trust vision/ci"),
    ]
    written = Path("vision.key")
    assert written.read_text() == "secret00000001\n"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


def test_a_second_run_changes_nothing(farm: Farm) -> None:
    apply(TEAMS, "--yes")
    farm.calls.clear()
    Path("vision.key").unlink()
    result = apply(TEAMS, "--yes")
    assert (result.exit_code, result.stdout) == (0, "no differences\n")
    assert farm.calls == []


@pytest.mark.parametrize("option", ["--check", "--dry-run"])
def test_a_check_changes_nothing_and_fails_if_there_are_differences(
    farm: Farm, option: str
) -> None:
    assert apply(TEAMS, option, "--yes").exit_code == 1
    assert farm.calls == []
    assert not Path("vision.key").exists()
    apply(TEAMS, "--yes")
    assert apply(TEAMS, option).exit_code == 0


@pytest.mark.parametrize(
    ("answer", "exit_code", "calls"), [("y\n", 0, 5), ("n\n", 1, 0), (None, 1, 0)]
)
def test_without_yes_the_command_asks(
    farm: Farm, answer: str | None, exit_code: int, calls: int
) -> None:
    result = apply(TEAMS, answer=answer)
    assert result.exit_code == exit_code
    assert len(farm.calls) == calls
    assert "Apply these changes?" in result.stderr
    assert ("--yes confirms" in result.stderr) == (answer is None)


def test_only_what_differs_is_changed_and_the_rest_is_left_alone(farm: Farm) -> None:
    quota = messages.Quota(sessions=2, buffers=9)
    farm.tenants["lab"] = messages.Tenant(name="lab", weight=2, priority_limit=7, quota=quota)
    farm.tenants["mill"] = messages.Tenant(name="mill", weight=1)
    farm.add_key("lab", "old", ["operate"])
    result = apply(
        """
        tenants:
          lab: {weight: 2, disabled: true, quota: {sessions: none, streams: 4}}
        """,
        "--yes",
    )
    difference = "disabled false -> true, sessions 2 -> none, streams none -> 4"
    assert result.stdout == f"~ tenant lab: {difference}\n"
    assert farm.calls == ["update lab"]
    expected = messages.Quota(buffers=9, streams=4)
    assert farm.tenants["lab"] == messages.Tenant(
        name="lab", weight=2, priority_limit=7, quota=expected, disabled=True
    )


def test_a_new_tenant_may_be_disabled_and_unlimited(farm: Farm) -> None:
    result = apply(
        "tenants: {lab: {disabled: true, priority_limit: 3, quota: {sessions: none}}}", "--yes"
    )
    assert result.stdout == "+ tenant lab: priority_limit 3, disabled true\n"
    assert farm.tenants["lab"].disabled
    assert not farm.tenants["lab"].quota.ListFields()


def test_expired_and_revoked_keys_and_keys_with_other_scopes_do_not_count(farm: Farm) -> None:
    farm.tenants["lab"] = messages.Tenant(name="lab", weight=1)
    farm.add_key("lab", "ci", ["operate"], expires_at=1.0)
    farm.add_key("lab", "ci", ["operate"], revoked_at=1.0)
    farm.add_key("lab", "ci", ["operate", "metrics"])
    assert apply("tenants: {lab: {keys: {ci: }}}", "--check").stdout == (
        "+ key lab/ci: operate, never expires, shown once\n"
    )
    farm.add_key("lab", "ci", ["operate"], expires_at=1e18)
    assert apply("tenants: {lab: {keys: {ci: }}}", "--check").exit_code == 0


def test_an_identity_that_another_principal_has_is_moved(farm: Farm) -> None:
    apply(TEAMS, "--yes")
    moved = TEAMS.replace("principal: ci", "principal: robot\n        scopes: [metrics]")
    result = apply(moved, "--yes")
    assert result.stdout == (
        f"~ identity {ISSUER} opserve repository=farm/vision: "
        "for vision/ci (operate) -> vision/robot (metrics)\n"
    )
    (identity,) = farm.identities
    assert (identity.principal, list(identity.scopes)) == ("robot", ["metrics"])


def test_prune_removes_what_the_file_lacks_but_nothing_of_the_callers_tenant(farm: Farm) -> None:
    apply(TEAMS, "--yes")
    farm.tenants["mill"] = messages.Tenant(name="mill", weight=1)
    farm.tenants["vision"].quota.buffers = farm.tenants["admin"].quota.buffers = 5
    old, other = (farm.add_key("vision", name, ["operate"]) for name in ("old", "dashboard"))
    farm.add_identity(
        ISSUER, audience="a", claims={"sub": "x"}, tenant="vision", principal="p", scopes=["admin"]
    )
    farm.add_identity(
        ISSUER, audience="b", claims={"sub": "x"}, tenant="mill", principal="p", scopes=["admin"]
    )
    result = apply(f"{TEAMS}  admin:\n", "--prune", "--yes")
    assert result.stdout.splitlines() == [
        "~ tenant vision: buffers 5 -> none",
        f"- identity {ISSUER} a sub=x: for vision/p (admin)",
        f"- key vision/dashboard: id {other.id}",
        f"- key vision/old: id {old.id}",
        "- tenant mill: its name is never used again",
    ]
    assert result.exit_code == 0, result.output
    assert farm.tenants.keys() == {"admin", "vision", "speech"}
    assert [key.principal for key in farm.keys] == ["root", "laptop", "dashboard"]
    assert apply(TEAMS, "--prune", "--check").exit_code == 0


def test_a_failure_states_what_was_applied_and_a_second_run_applies_the_rest(farm: Farm) -> None:
    farm.failures["key vision/laptop 7776000.0"] = unreachable("the connection broke")
    result = apply(TEAMS, "--yes")
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.stderr.splitlines()]
    assert lines[0] == "opserve apply: applied 2 of 5 changes"
    assert lines[1:3] == [
        "applied: + tenant vision: weight 3, sessions 8, calls_per_s 500",
        "applied: + tenant speech",
    ]
    assert lines[3].startswith("failed: + key vision/laptop: operate")
    assert lines[3].endswith("the connection broke")
    assert [line.split(":")[0] for line in lines[4:6]] == ["not applied", "not applied"]
    assert "Run the command again" in lines[6]
    assert not Path("vision.key").exists(), "no file without a key"
    again = apply(TEAMS, "--yes")
    assert again.exit_code == 0
    assert again.stdout.splitlines()[0].startswith("+ key vision/laptop")


def test_an_interrupted_run_still_shows_the_keys_it_created(farm: Farm) -> None:
    farm.failures["trust vision/ci"] = KeyboardInterrupt()
    result = apply(TEAMS, "--yes")
    assert result.exit_code == 1
    assert "interrupted" in result.stderr
    assert result.stdout.splitlines()[-1] == "secret00000002"


def test_json_has_differences_keys_and_the_error_alone_on_standard_output(farm: Farm) -> None:
    farm.failures["trust vision/ci"] = unreachable("broken")
    printed = json.loads(apply(TEAMS, "--yes", "--json").stdout)
    assert printed["changes"][1] == {"sign": "+", "subject": "tenant speech", "details": ""}
    assert printed["applied"] == 4
    assert printed["keys"] == [
        {"caller": "vision/laptop", "key": None, "file": "vision.key"},
        {"caller": "vision/dashboard", "key": "secret00000002", "file": None},
    ]
    assert "broken" in printed["error"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": "here.key"}, "here.key exists already"),
        ({"a": "new.key", "b": "./new.key"}, "new.key is the file of another key"),
        ({"a": "absent/new.key"}, "absent/new.key: no file can be created in its folder"),
    ],
)
def test_no_key_is_created_for_a_file_that_cannot_take_it(
    farm: Farm, files: dict[str, str], message: str
) -> None:
    Path("here.key").write_text("mine")
    keys = {name: {"file": file} for name, file in files.items()}
    result = apply(json.dumps({"tenants": {"lab": {"keys": keys}}}), "--yes")
    assert result.exit_code == 2
    assert message in result.stderr
    assert farm.calls == []
    assert Path("here.key").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("tenants:\n  lab:\n    weight: 0\n", "3: tenants.lab.weight", "greater than or equal"),
        ("tenants:\n  lab:\n    wieght: 1\n", "3: tenants.lab.wieght", "extra inputs"),
        ("tenants:\n  Lab: {}\n", "2: tenants.Lab", "pattern"),
        ("tenants:\n  lab:\n    weight: '2'\n", "3: tenants.lab.weight", "valid integer"),
        (
            "tenants:\n  lab:\n    quota:\n      sessions: 256MB\n",
            "4: tenants.lab.quota.sessions",
            "valid integer",
        ),
        ("tenants: {lab: {quota: {sessions: }}}", "1: tenants.lab.quota.sessions", "none for no"),
        ("tenants: {lab: {quota: {sessions: true}}}", "1: tenants.lab.quota.sessions", "integer"),
        ("tenants: {lab: {quota: {sessions: -1}}}", "1: tenants.lab.quota.sessions", "equal to 0"),
        ("tenants: {lab: {quota: {sessions: 1.5}}}", "1: tenants.lab.quota.sessions", "integer"),
        (
            "tenants: {lab: {quota: {calls_per_s: .inf}}}",
            "1: tenants.lab.quota.calls_per_s",
            "finite",
        ),
        ("tenants: {lab: {quota: {seats: 1}}}", "1: tenants.lab.quota.seats", "extra inputs"),
        (
            "tenants:\n  lab:\n    quota:\n      bytes_in_flight: 3XB\n",
            "4: tenants.lab.quota.bytes_in_flight",
            "such as 268435456, 256MB or 256MiB",
        ),
        (
            "tenants:\n  lab:\n    keys:\n      ci:\n        scopes: [root]\n",
            "5: tenants.lab.keys.ci.scopes.0",
            "'operate', 'metrics' or 'admin'",
        ),
        (
            "tenants:\n  lab:\n    identities:\n      - {issuer: a, audience: b, principal: c}\n",
            "4: tenants.lab.identities.0.claims",
            "field required",
        ),
        ("[]", "1: the document", "valid dictionary"),
        ("", "1: the document", "valid dictionary"),
    ],
)
def test_an_invalid_value_is_named_with_its_line(
    farm: Farm, text: str, place: str, reason: str
) -> None:
    result = apply(text, "--yes")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"opserve apply: teams.yaml:{place}: ")
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1
    assert farm.calls == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tenants: {a: {}\n b", "teams.yaml:2: no YAML"),
        ("tenants:\n  a: {}\n  a: {}\n", "teams.yaml:3: no YAML: found duplicate key"),
        ("tenants: {a: \x07}", "teams.yaml: no YAML"),
    ],
)
def test_a_file_that_is_no_yaml_is_named_with_its_line(farm: Farm, text: str, message: str) -> None:
    result = apply(text)
    assert (result.exit_code, farm.calls) == (2, [])
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_file_that_cannot_be_read_has_its_name_in_the_error() -> None:
    result = CliRunner().invoke(cli.app, ["apply", "none.yaml"])
    assert result.exit_code == 2
    assert "none.yaml" in result.stderr
    Path("latin.yaml").write_bytes(b"tenants: {\xe9: {}}")
    assert "latin.yaml: not UTF-8" in CliRunner().invoke(cli.app, ["apply", "latin.yaml"]).stderr


def test_the_bounds_of_the_file_are_those_of_the_service() -> None:
    for member, (least, most) in (("weight", WEIGHTS), ("priority_limit", PRIORITY_LIMITS)):
        for value, code in ((least, 1), (most, 1), (least - 1, 2), (most + 1, 2)):
            text = f"tenants: {{lab: {{{member}: {value}}}}}"
            assert apply(text, "--check").exit_code == code, text
    quota, scopes = dict.fromkeys(map(str, Resource), 1), list(map(str, Scope))
    tenant = {"quota": quota, "keys": {"ci": {"scopes": scopes}}}
    assert apply(json.dumps({"tenants": {"lab": tenant}}), "--check").exit_code == 1


def test_an_error_of_the_service_before_the_first_change_is_raised(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> list[messages.Tenant]:
        raise unreachable("no service")

    monkeypatch.setattr(farm, "list_tenants", fails)
    result = apply(TEAMS, "--yes")
    assert isinstance(result.exception, OpserveError)


def test_a_size_may_have_a_unit(farm: Farm) -> None:
    apply("tenants: {lab: {quota: {device_memory_bytes: 2MiB, bytes_in_flight: none}}}", "--yes")
    assert farm.tenants["lab"].quota == messages.Quota(device_memory_bytes=2**21)
