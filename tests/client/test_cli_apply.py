"""opserve apply: the differences between a file and a service, and their application."""

import json
import stat
from pathlib import Path

import pytest

from client.farm import ISSUER, TEAMS, Farm, apply
from opserve.v1 import admin_service_pb2 as messages
from opserve_client.errors import OpserveError, unreachable

pytestmark = pytest.mark.usefixtures("farm")


def test_a_file_is_applied_after_its_differences_are_shown(farm: Farm) -> None:
    result = apply(TEAMS, "--yes")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines()[:5] == [
        "+ tenant vision: weight 3, sessions 8, calls_per_s 500",
        "+ tenant speech",
        "+ key vision/laptop: operate, expires after 90 days, in vision.key",
        "+ key vision/dashboard: metrics, never expires, shown once",
        f"+ identity {ISSUER} opserve repository=farm/vision: for vision/ci (operate)",
    ]
    assert result.stdout == "vision/dashboard secret00000002\n", "the key without a file"
    assert "Key of vision/dashboard. Save it" in result.stderr
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
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no differences\n")
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
    assert result.stderr == f"~ tenant lab: {difference}\n"
    assert farm.calls == ["update lab"]
    expected = messages.Quota(buffers=9, streams=4)
    assert farm.tenants["lab"] == messages.Tenant(
        name="lab", weight=2, priority_limit=7, quota=expected, disabled=True
    )


def test_a_new_tenant_may_be_disabled_and_unlimited(farm: Farm) -> None:
    result = apply(
        "tenants: {lab: {disabled: true, priority_limit: 3, quota: {sessions: none}}}", "--yes"
    )
    assert result.stderr == "+ tenant lab: priority_limit 3, disabled true\n"
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
    assert result.stderr == (
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
    assert result.stderr.splitlines() == [
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
    lines = [" ".join(line.split()) for line in result.stderr.splitlines()[5:]]
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
    assert again.stderr.splitlines()[0].startswith("+ key vision/laptop")


def test_an_interrupted_run_still_shows_the_keys_it_created(farm: Farm) -> None:
    farm.failures["trust vision/ci"] = KeyboardInterrupt()
    result = apply(TEAMS, "--yes")
    assert result.exit_code == 1
    assert "interrupted" in result.stderr
    assert result.stdout == "vision/dashboard secret00000002\n"


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
        ({"a": "absent/new.key"}, "absent/new.key: No file can be created in its folder"),
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
