"""Settings: their names, bounds and what they refuse."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import SecretStr, ValidationError

import opserve_server.settings
from opserve_client.access import VARIABLES
from opserve_client.cli import app as command_line
from opserve_kernels.cases.cache import cache_folder
from opserve_kernels.profiles import PROFILES
from opserve_server.addresses import host_and_port, is_loopback, reached
from opserve_server.app import core_limits, new_devices
from opserve_server.core.limits import Limits
from opserve_server.settings import (
    CLIENT_VARIABLES,
    OPTIONS,
    SettingRefused,
    Settings,
    changed_settings,
    settings_of_environment,
)

SERVER = SecretStr("postgresql://u@h/d")


def test_every_setting_is_described_with_its_default() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert not field.is_required(), name


def test_changed_settings_have_their_defaults_and_no_secret() -> None:
    url = SecretStr("postgresql://opserve:hunter2@db/opserve")
    settings = Settings(devices=["ascend910"], watch_limit_s=5.0, store_url=url)
    changed = {one.name: (one.value, one.default) for one in changed_settings(settings)}
    assert changed["OPSERVE_WATCH_LIMIT_S"] == ("5.0", "600.0")
    assert changed["OPSERVE_DEVICES"][0] == '["ascend910"]'
    assert changed["OPSERVE_STORE_URL"][0] == "its value, which may contain a password"
    assert "hunter2" not in str(changed)


def test_sizes_and_times_name_their_unit() -> None:
    described = {name: field.description or "" for name, field in Settings.model_fields.items()}
    times = {name: text for name, text in described.items() if name.endswith("_s")}
    sizes = {name: text for name, text in described.items() if "bytes" in name}
    assert times
    assert [name for name, text in times.items() if "seconds" not in text] == []
    assert sizes
    assert [name for name, text in sizes.items() if "bytes" not in text] == []


def test_there_is_a_device_of_each_profile_by_default() -> None:
    assert Settings().devices == list(PROFILES)
    chosen = Settings(devices=["Ascend310P3", "MT7004", "ascend910b", "Ascend910B1"])
    assert chosen.devices == ["ascend310p", "mt7004", "ascend910b", "ascend910b"]
    names = [device.name for device in new_devices(chosen)]
    assert names == ["ascend310p-0", "mt7004-0", "ascend910b-0", "ascend910b-1"]


def test_every_limit_of_the_core_is_a_setting() -> None:
    settings = Settings(buffers_limit=17, lease_default_s=2.5)
    limits = core_limits(settings)
    for field in fields(Limits):
        assert getattr(limits, field.name) == getattr(settings, field.name)
    assert (limits.buffers_limit, limits.lease_default_s) == (17, 2.5)


def test_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPSERVE_DEVICES", '["ascend910b", "ascend910b"]')
    monkeypatch.setenv("OPSERVE_SESSIONS_LIMIT", "3")
    settings = Settings()
    assert settings.sessions_limit == 3
    assert [device.name for device in new_devices(settings)] == ["ascend910b-0", "ascend910b-1"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPSERVE_DEVICES", "[]"),
        ("OPSERVE_DEVICES", '["ascend3000"]'),
        ("OPSERVE_SESSIONS_LIMIT", "0"),
        ("OPSERVE_LEASE_DEFAULT_S", "0"),
        ("OPSERVE_WAIT_LIMIT_S", "inf"),
        ("OPSERVE_LOG_LEVEL", "LOUD"),
        ("OPSERVE_GRPC_ADDRESS", "127.0.0.1"),
        ("OPSERVE_GRPC_ADDRESS", "127.0.0.1:65536"),
        ("OPSERVE_REST_ADDRESS", ":80"),
        ("OPSERVE_REST_ADDRESS", "127.0.0.1:http"),
    ],
)
def test_a_setting_out_of_bounds_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError, match=name.removeprefix("OPSERVE_").lower()):
        Settings()


@pytest.mark.parametrize(
    ("name", "value", "beginning"),
    [
        (
            "DEVICES",
            "ascend910b",
            "does not accept ascend910b; it accepts a JSON list of profiles, ",
        ),
        ("DEVICES", "[]", "does not accept []; it accepts a list of at least 1. "),
        (
            "DEVICES",
            '["ascend950"]',
            "does not accept ascend950; it accepts the profiles ascend910b, ascend9",
        ),
        ("SESSIONS_LIMIT", "0", "does not accept 0; it accepts at least 1. "),
        ("SESSIONS_LIMIT", "many", "does not accept many; it accepts an integer. "),
        ("LEASE_DEFAULT_S", "0", "does not accept 0; it accepts more than 0. "),
        ("LEASE_DEFAULT_S", "inf", "does not accept inf; it accepts a finite number. "),
        ("ALLOW_PLAINTEXT", "perhaps", "does not accept perhaps; it accepts true or false. "),
        (
            "LOG_LEVEL",
            "LOUD",
            "does not accept LOUD; it accepts one of DEBUG, INFO, WARNING, ERROR. ",
        ),
        (
            "REST_ADDRESS",
            "127.0.0.1:65536",
            "does not accept 127.0.0.1:65536; it accepts host:port, ",
        ),
        ("EXPECTED_VALUES_FOLDER", "", "is missing; it accepts a folder. "),
    ],
)
def test_a_refusal_names_setting_given_allowed_and_where_it_is_set(
    name: str, value: str, beginning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"OPSERVE_{name}", value)
    with pytest.raises(SettingRefused) as caught:
        settings_of_environment()
    message = str(caught.value)
    assert message.startswith(f"{name.lower()} {beginning}")
    assert f" Set it by OPSERVE_{name}" in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["OPSERVE_LOCAL_LANE", "opserve_local_lane"])
def test_a_setting_under_an_old_name_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "false")
    with pytest.raises(SettingRefused, match=r"OPSERVE_LOCAL_LANE .* set OPSERVE_SHARED_MEMORY"):
        settings_of_environment()


def test_the_service_keeps_expected_values_apart_from_those_of_conform(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPSERVE_EXPECTED_VALUES_FOLDER")
    folder = Settings().expected_values_folder
    assert (folder.parent, folder.name) == (cache_folder().parent, "service-expected-values")
    assert folder != cache_folder()


def test_a_password_in_a_setting_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPSERVE_STORE_URL", "postgresql://ann:swordfish@db.farm/ops")
    settings = settings_of_environment()
    assert settings.store_url.get_secret_value().endswith(":swordfish@db.farm/ops")
    assert "swordfish" not in f"{settings} {settings!r} {settings.model_dump_json()}"

    monkeypatch.setenv("OPSERVE_STORE_URL", "postgresql://ann:sword/fish@db.farm/ops")
    with pytest.raises(SettingRefused) as refused:
        settings_of_environment()
    message = (
        "store_url does not accept its value, which may contain a password; it accepts sqlite:///"
    )
    assert str(refused.value).startswith(message)
    with pytest.raises(ValidationError) as whole:
        Settings()
    assert "fish" not in f"{refused.value} {whole.value}"


def test_a_path_in_place_of_the_url_of_a_store_is_shown_with_the_likely_url(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPSERVE_STORE_URL", "opserve.db")
    with pytest.raises(SettingRefused) as refused:
        settings_of_environment()
    assert str(refused.value).startswith("store_url does not accept opserve.db; it accepts sqlite")
    assert "did you mean sqlite:///opserve.db?" in str(refused.value)


def test_the_store_is_a_file_of_the_user_unless_another_or_none_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("OPSERVE_STORE_URL", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "opserve" / "opserve.db"
    assert Settings().store_url.get_secret_value() == f"sqlite:///{file}"
    monkeypatch.setenv("OPSERVE_STORE_URL", "")
    assert not Settings().store_url
    assert not file.exists()


def test_options_of_the_command_line_are_those_that_refusals_name() -> None:
    serve: Any = vars(typer.main.get_command(command_line))["commands"]["serve"]
    options = [name for option in serve.params for name in option.opts if name != "--help"]
    assert sorted(options) == sorted(OPTIONS.values())
    assert OPTIONS.keys() <= Settings.model_fields.keys()


@pytest.mark.parametrize("address", ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "example.org:1"])
@pytest.mark.parametrize("api", ["grpc_address", "rest_address"])
@pytest.mark.parametrize(
    "leave",
    [
        {"ALLOW_PLAINTEXT": "true"},
        {"TLS_CERTIFICATE_FILE": "chain.pem", "TLS_KEY_FILE": "key.pem"},
    ],
)
def test_addresses_that_others_can_reach_need_tls_or_leave(
    api: str, address: str, leave: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"OPSERVE_{api.upper()}", address)
    with pytest.raises(ValidationError, match=r"without TLS.*OPSERVE_ALLOW_PLAINTEXT=true"):
        Settings()
    for name, value in leave.items():
        monkeypatch.setenv(f"OPSERVE_{name}", value)
    assert getattr(Settings(), api) == address


@pytest.mark.parametrize("given", ["tls_certificate_file", "tls_key_file", "client_ca_file"])
def test_tls_is_set_whole_or_not_at_all(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"OPSERVE_{given.upper()}", "some.pem")
    with pytest.raises(
        SettingRefused,
        match="set both",
    ):
        settings_of_environment()


@pytest.mark.parametrize(
    ("address", "parts", "reach"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0), "local"),
        ("127.9.9.9:80", ("127.9.9.9", 80), "local"),
        ("localhost:50051", ("localhost", 50051), "local"),
        ("[::1]:8080", ("::1", 8080), "local"),
        ("[::]:8080", ("::", 8080), "remote"),
        ("localhost.example.org:1", ("localhost.example.org", 1), "remote"),
    ],
)
def test_addresses_have_a_host_and_a_port(address: str, parts: tuple[str, int], reach: str) -> None:
    assert host_and_port(address) == parts
    assert is_loopback(address) == (reach == "local")


def test_the_page_of_settings_is_fresh() -> None:
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "tools/settings_page.py", "--check"], cwd=root, check=True)


def test_limits_are_stated_in_settings_alone() -> None:
    names = {field.name for field in fields(Limits)}
    text = Path(opserve_server.settings.__file__).read_text()
    assert names <= set(re.findall(r"^    (\w+):", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("OPSERVE_DEVICS", "OPSERVE_DEVICES"),
        ("opserve_sesions_limit", "OPSERVE_SESSIONS_LIMIT"),
        ("OPSERVE_API_KEYS", "OPSERVE_API_KEY"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_one_that_it_means(
    variable: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(SettingRefused, match=rf"^{variable.upper()} .*did you mean {meant}\?$"):
        settings_of_environment()


def test_variables_of_the_client_of_clusters_and_of_tools_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert set(CLIENT_VARIABLES) == set(VARIABLES)
    for variable in (
        *(set(VARIABLES) - {"OPSERVE_ALLOW_PLAINTEXT"}),  # a setting, too
        *("OPSERVE_SERVICE_HOST", "OPSERVE_PORT_50051_TCP_ADDR", "OPSERVE_URL"),
        *("OPSERVE_KERNEL_LANES", "OPSERVE_PLAIN_KERNELS", "OPSERVE_FUZZ_SEED"),
    ):
        monkeypatch.setenv(variable, "1")
    assert settings_of_environment() == Settings()


def test_a_size_may_have_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPSERVE_DEVICE_MEMORY_BYTES", "256MB")
    monkeypatch.setenv("OPSERVE_CHUNK_BYTES", "1 MiB")
    settings = settings_of_environment()
    assert (settings.device_memory_bytes, settings.chunk_bytes) == (256_000_000, 2**20)
    monkeypatch.setenv("OPSERVE_DEVICE_MEMORY_BYTES", "256Mbit")
    with pytest.raises(
        SettingRefused, match="256Mbit; it accepts a whole number of bytes, such as"
    ):
        settings_of_environment()


@pytest.mark.parametrize("url", ["", "sqlite:///farm.db"])
def test_a_farm_needs_a_store_on_postgresql(url: str) -> None:
    with pytest.raises(ValidationError, match="farm_name needs a store that services on several"):
        Settings(farm_name="a", store_url=SecretStr(url), no_keys=True)
    Settings(farm_name="", store_url=SecretStr(url), no_keys=True)


def test_a_farm_needs_a_host_that_clients_can_call() -> None:
    def of_host(host: str) -> Settings:
        return Settings(
            farm_name="a",
            farm_host=host,
            store_url=SERVER,
            grpc_address="0.0.0.0:1",
            allow_plaintext=True,
        )

    with pytest.raises(
        ValidationError, match=r"grpc_address is 0\.0\.0\.0:1, which clients cannot"
    ):
        of_host("")
    assert of_host("rack-1").farm_host == "rack-1"


@pytest.mark.parametrize("name", ["A", "a_b", "a" * 33, "a.b"])
def test_names_of_services_are_short_and_plain(name: str) -> None:
    with pytest.raises(ValidationError, match="farm_name"):
        Settings(farm_name=name, store_url=SERVER)


@pytest.mark.parametrize(
    ("address", "scheme", "host", "expected"),
    [
        ("127.0.0.1:5", "grpc", "", "grpc://127.0.0.1:5"),
        ("[::1]:5", "grpc", "", "grpc://[::1]:5"),
        ("grpcs://0.0.0.0:5", "grpc", "rack", "grpcs://rack:5"),
        ("https://0.0.0.0:5", "http", "fd00::1", "https://[fd00::1]:5"),
    ],
)
def test_addresses_of_a_farm_have_the_host_that_clients_reach(
    address: str, scheme: str, host: str, expected: str
) -> None:
    assert reached(address, scheme, host=host) == expected
