"""opserve apply: a file that the service would reject, in whole or in part, changes nothing."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from client.farm import IDENTITY, ISSUER, TEAMS, Farm, apply
from opserve.v1 import admin_service_pb2 as messages
from opserve.v1.usage_service_pb2 import GetUsageResponse
from opserve_client import cli
from opserve_client.apply import checks, document
from opserve_client.errors import error_for
from opserve_client.request_forms import KEY_DAYS, LIMIT_MAXIMUM
from opserve_server import admin_rules
from opserve_server.admin_rules import PRIORITY_LIMITS, WEIGHTS
from opserve_server.core.errors import InvalidArgument
from opserve_server.core.principal import LOCAL, Scope
from opserve_server.core.tenants import Resource
from opserve_server.store.keys import LIVE_KEYS_LIMIT
from sentences import faults_of

pytestmark = pytest.mark.usefixtures("farm")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "tenants:\n  lab:\n    wieght: 1\n",
            (
                "3: tenants.lab does not accept wieght; it accepts weight, priority_limit, "
                "disabled, quota, keys, identities; did you mean weight?"
            ),
        ),
        (
            "tenants: {lab: {quota: {seats: 1}}}",
            "1: tenants.lab.quota does not accept seats; it accepts device_memory_bytes, sessions",
        ),
        ("tenant:\n  lab: {}\n", "1: The document does not accept tenant; it accepts tenants; did"),
        (
            "tenants:\n  Vision Team: {}\n",
            (
                "2: tenants does not accept Vision Team; it accepts names of 1 to 63 lower case "
                "letters, digits and hyphens; did you mean vision-team?"
            ),
        ),
        ("tenants: {local: {}}", "1: tenants does not accept local; it accepts names other than"),
        (
            "tenants: {lab: {keys: [laptop]}}",
            (
                '1: tenants.lab.keys does not accept ["laptop"]; it accepts a mapping of keys by '
                "principal: {laptop: {days: 90}}."
            ),
        ),
        (
            "tenants: {lab: {keys: {a b: {}}}}",
            "1: tenants.lab.keys does not accept a b; it accepts names of 1 to 63 letters",
        ),
        ("tenants: [lab]", '1: tenants does not accept ["lab"]; it accepts a mapping of'),
        ("tenants: {lab: 3}", "1: tenants.lab does not accept 3; it accepts a mapping with weight"),
        ("[]", "1: The document does not accept []; it accepts a mapping with tenants."),
        ("{}", "1: tenants is missing; it accepts a mapping of tenants by name"),
        ("", "1: The file is empty: write 'tenants:' and names below it."),
        (
            "tenants:\n  lab:\n    weight: 0\n",
            "3: tenants.lab.weight does not accept 0; it accepts a whole number, 1 to 1000.",
        ),
        ("tenants: {lab: {weight: '2'}}", "1: tenants.lab.weight does not accept 2; it accepts a"),
        (
            "tenants: {lab: {disabled: 2}}",
            "1: tenants.lab.disabled does not accept 2; it accepts t",
        ),
        (
            "tenants: {lab: {quota: {sessions: }}}",
            (
                "1: tenants.lab.quota.sessions is missing; it accepts a whole number, 0 to "
                "9223372036854775807, or none for no limit."
            ),
        ),
        ("tenants: {lab: {quota: {sessions: true}}}", "1: tenants.lab.quota.sessions does not acc"),
        ("tenants: {lab: {quota: {sessions: -1}}}", "1: tenants.lab.quota.sessions does not accep"),
        ("tenants: {lab: {quota: {sessions: 256MB}}}", "1: tenants.lab.quota.sessions does not a"),
        ("tenants: {lab: {quota: {calls_per_s: .inf}}}", "1: tenants.lab.quota.calls_per_s does "),
        (
            "tenants: {lab: {quota: {bytes_in_flight: 3XB}}}",
            (
                "1: tenants.lab.quota.bytes_in_flight does not accept 3XB; it accepts a whole "
                "number of bytes, such as 268435456 or 256MiB, or none for no limit."
            ),
        ),
        (
            "tenants:\n  lab:\n    keys:\n      ci:\n        scopes: [opreate]\n",
            (
                "5: tenants.lab.keys.ci.scopes.0 does not accept opreate; it accepts operate, "
                "metrics, admin; did you mean operate?"
            ),
        ),
        ("tenants: {lab: {keys: {ci: {scopes: []}}}}", "1: tenants.lab.keys.ci.scopes does not ac"),
        (
            "tenants: {lab: {keys: {ci: {days: 0}}}}",
            "1: tenants.lab.keys.ci.days does not accept 0; it accepts a number, 0.0001 to 36600.",
        ),
        ("tenants: {lab: {identities: {}}}", "1: tenants.lab.identities does not accept {}; it ac"),
        (
            "tenants:\n  lab:\n    identities:\n      - {issuer: a, audience: b, principal: c}\n",
            "4: tenants.lab.identities.0.claims is missing; it accepts a mapping of claims",
        ),
        (
            IDENTITY.replace("{repository: farm/vision}", "{ref: main}"),
            (
                '6: tenants.lab.identities.0.claims does not accept {"ref": "main"}; it accepts '
                "claims with one of sub, repository, repository_id,"
            ),
        ),
        (IDENTITY.replace("farm/vision", "1"), "6: tenants.lab.identities.0.claims.repository do"),
        (IDENTITY.replace("principal: ci", "principal: opserve_ci"), "7: tenants.lab.identities.0"),
        (IDENTITY.replace("audience: a", "audience: ''"), "5: tenants.lab.identities.0.audience "),
        (
            IDENTITY.replace(ISSUER, "https://github.com"),
            (
                "4: tenants.lab.identities.0.issuer does not accept https://github.com; it accepts "
                f"those of the service's OPSERVE_IDENTITY_ISSUERS: {ISSUER}"
            ),
        ),
        (
            "tenants:\n  lab:\n  gone:\n",
            "3: tenants.gone has the name of a deleted tenant: choose a name that is new.",
        ),
        (
            "tenants:\n  admin:\n    keys: {root: {scopes: [metrics]}}\n",
            (
                "3: tenants.admin.keys.root needs a third key beside 00000000 (operate admin) and "
                "00000001 (operate): choose its scopes, or revoke one with `opserve key revoke "
                "00000000`."
            ),
        ),
        (
            "tenants:\n  lab:\n  admin:\n    disabled: true\n",
            (
                "4: tenants.admin.disabled leaves no caller with the scope admin: give it to "
                "another one first."
            ),
        ),
        (
            "tenants: {admin: {quota: {calls_per_s: 0}}}",
            "1: tenants.admin.quota leaves no caller with the scope admin",
        ),
    ],
)
@pytest.mark.parametrize("option", ["--check", "--yes"])
def test_an_invalid_value_is_a_sentence_with_its_line_before_any_change(
    farm: Farm, text: str, sentence: str, option: str
) -> None:
    farm.add_key("admin", "root", ["operate"])
    result = apply(text, option)
    assert (result.exit_code, result.stdout, farm.calls) == (2, "", [])
    start = "opserve apply: teams.yaml:"
    assert result.stderr.startswith(f"{start}{sentence}"), result.stderr
    assert result.stderr.count("\n") == 1
    said = result.stderr.strip().removeprefix(start).partition(": ")[2]
    assert not faults_of(said), said


def test_every_problem_of_a_file_is_reported_in_a_line(farm: Farm) -> None:
    twice = f"{IDENTITY}  mill:\n{IDENTITY.partition('lab:')[2].lstrip(chr(10))}  gone:\n"
    result = apply(twice, "--yes")
    assert (result.exit_code, farm.calls) == (2, [])
    assert [line.removeprefix("opserve apply: ") for line in result.stderr.splitlines()] == [
        (
            "teams.yaml:10: tenants.mill.identities.0 has the issuer, audience and claims of "
            "tenants.lab.identities.0: keep one of them."
        ),
        "teams.yaml:14: tenants.gone has the name of a deleted tenant: choose a name that is new.",
    ]


def test_pruning_does_not_remove_the_last_administrator(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm.tenants["ci"] = messages.Tenant(name="ci", weight=1)
    monkeypatch.setattr(farm, "get_usage", lambda: GetUsageResponse(tenant="ci"))
    result = apply("tenants: {lab: {}}", "--prune", "--yes")
    assert (result.exit_code, farm.calls) == (2, [])
    assert "--prune leaves no caller with the scope admin" in result.stderr
    assert (
        apply("tenants: {lab: {keys: {a: {scopes: [admin]}}}}", "--prune", "--yes").exit_code == 0
    )


def test_a_tenant_is_enabled_before_the_last_administrator_of_another_is_disabled(
    farm: Farm,
) -> None:
    farm.tenants["lab"] = messages.Tenant(name="lab", weight=1, disabled=True)
    farm.certificates.append(messages.Certificate(tenant="lab", scopes=["admin"]))
    late = "tenants: {admin: {disabled: true}, lab: {disabled: false}}"
    assert apply(late, "--check").exit_code == 2, "the order of the changes is that of the file"
    assert apply("tenants: {lab: {disabled: false}, admin: {disabled: true}}").exit_code == 1


def test_a_failure_that_stays_proposes_a_correction(farm: Farm) -> None:
    farm.failures["create speech"] = error_for("Tenant speech exists.", code=107000)
    result = apply(TEAMS, "--yes")
    assert result.exit_code == 1
    assert "Correct the cause of the failed one" in result.stderr.splitlines()[-1]
    assert "again" not in result.stderr


def test_the_rules_of_the_file_are_those_of_the_service() -> None:
    assert document.IDENTIFYING_CLAIMS == admin_rules.IDENTIFYING_CLAIMS
    assert LOCAL.tenant == document.KEYLESS_TENANT
    assert checks.LIVE_KEYS_LIMIT == LIVE_KEYS_LIMIT
    assert LIMIT_MAXIMUM == admin_rules.LIMIT_MAXIMUM
    assert tuple(document.SCOPES) == tuple(map(str, Scope))
    least, most = (days * 86400.0 for days in KEY_DAYS)
    assert 1.0 <= least < 10.0
    assert most == admin_rules.LIFETIME_MAXIMUM_S
    for name in ("a", "lab-1", "x" * 63, "Lab", "x" * 64, "", "a_b"):
        try:
            admin_rules.new_tenant_name(name)
        except InvalidArgument:
            allowed = 2
        else:
            allowed = 1
        assert apply(json.dumps({"tenants": {name: {}}}), "--check").exit_code == allowed, name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tenants: {a: {}\n b", "teams.yaml:2: The file is no valid YAML: "),
        (
            "tenants:\n  a:\n    weight: 1\n    weight: 3\n",
            "teams.yaml:4: weight occurs twice in one mapping: keep one of them.\n",
        ),
        ("tenants: {a: \x07}", "teams.yaml: The file is no valid YAML: "),
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
