"""Credentials of a client: the calls with them, and those without."""

import secrets

import pytest

from opserve_client import AclrtError, AsyncClient, Client, TlsFiles
from opserve_client.access import KEY_VARIABLE, PLAINTEXT_VARIABLE, access_to
from opserve_client.errors import (
    AuthenticationError,
    OpserveError,
    PermissionDeniedError,
    error_for,
)
from opserve_client.transports import GrpcTransport
from opserve_server.settings import Settings

KEY = f"opserve_{secrets.token_hex(18)}"
BEARER = {"authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize(
    ("address", "is_http", "target", "secure"),
    [
        ("127.0.0.1:50051", False, "127.0.0.1:50051", False),
        ("grpc://[::1]:50051", False, "[::1]:50051", False),
        ("http://localhost:8080", True, "http://localhost:8080", False),
        ("grpcs://farm.example:443", False, "farm.example:443", True),
        ("https://farm.example", True, "https://farm.example", True),
    ],
)
def test_an_address_selects_the_protocol_and_a_key_is_sent_over_it(
    address: str, target: str, *, is_http: bool, secure: bool
) -> None:
    access = access_to(address, api_key=KEY, tls=None, allow_plaintext=False)
    assert (access.is_http, access.target, access.secure) == (is_http, target, secure)
    assert access.headers == BEARER
    assert KEY not in repr(access)


@pytest.mark.parametrize("address", ["farm.example:1", "http://192.0.2.1", "grpc://10.0.0.1:1"])
def test_a_key_does_not_leave_this_machine_in_plain_text_unasked(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPSERVE_API_KEY", KEY)
    for client in (Client, AsyncClient):
        with pytest.raises(AclrtError, match="allow_plaintext") as refused:
            client(address)
        assert KEY not in f"{refused.value!r}{refused.value}"
    for allowed, variable in ((True, "false"), (None, "true"), (None, "1")):
        monkeypatch.setenv("OPSERVE_ALLOW_PLAINTEXT", variable)
        access = access_to(address, api_key=None, tls=None, allow_plaintext=allowed)
        assert access.headers == BEARER
    for refused_by, variable in ((False, "true"), (None, "false"), (None, "")):
        monkeypatch.setenv("OPSERVE_ALLOW_PLAINTEXT", variable)
        with pytest.raises(AclrtError, match="allow_plaintext"):
            access_to(address, api_key=None, tls=None, allow_plaintext=refused_by)
    monkeypatch.setenv("OPSERVE_ALLOW_PLAINTEXT", "ture")
    with pytest.raises(
        AclrtError, match="OPSERVE_ALLOW_PLAINTEXT does not accept ture; it accepts true or"
    ):
        Client(address)
    assert access_to(address, api_key="", tls=None, allow_plaintext=False).headers == {}


def test_files_of_tls_mean_tls() -> None:
    tls = TlsFiles(ca="ca.pem")
    assert access_to("farm:1", api_key=KEY, tls=tls, allow_plaintext=False).secure
    with pytest.raises(AclrtError, match="address does not accept http://farm"):
        access_to("http://farm", api_key=None, tls=tls, allow_plaintext=False)
    for scheme in ("grpcs", "https"):
        with pytest.raises(AclrtError, match="No such file"):
            Client(f"{scheme}://farm:1", tls=tls)


def test_a_malformed_key_is_refused_without_being_repeated() -> None:
    with pytest.raises(AclrtError, match="api_key") as refused:
        Client(api_key=f"{KEY}\r\nx-evil: 1")
    assert KEY not in str(refused.value)


def test_an_id_token_of_a_ci_system_is_a_credential() -> None:
    given = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2ln_-"
    access = access_to("127.0.0.1:1", api_key=given, tls=None, allow_plaintext=False)
    assert access.headers == {"authorization": f"Bearer {given}"}
    assert given not in repr(access)


def test_a_transport_shows_no_key() -> None:
    access = access_to("127.0.0.1:1", api_key=KEY, tls=None, allow_plaintext=False)
    transport = GrpcTransport("127.0.0.1:1", access=access)
    assert KEY not in f"{transport!r}{access}{Client(api_key=KEY)!r}"
    transport.close()


@pytest.mark.parametrize(
    ("parameter", "kind"),
    [("authorization", AuthenticationError), ("scope", PermissionDeniedError)],
)
def test_refusals_of_entry_points_are_distinguished(
    parameter: str, kind: type[OpserveError]
) -> None:
    error = error_for("no", code=207006, parameter=parameter)
    assert type(error) is kind
    assert isinstance(error, AclrtError)


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [("OPSERVE_APIKEY", "OPSERVE_API_KEY"), ("OPSERVE_ALLOW_PLAINTXT", "OPSERVE_ALLOW_PLAINTEXT")],
)
def test_a_misspelt_variable_is_refused_with_the_one_that_it_means(
    misspelt: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in (KEY_VARIABLE, PLAINTEXT_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    if meant == PLAINTEXT_VARIABLE:
        monkeypatch.setenv(KEY_VARIABLE, KEY)
    monkeypatch.setenv(misspelt, "true")
    with pytest.raises(AclrtError, match=f"{misspelt} .*{meant}"):
        Client("farm.example:50051")


def test_no_setting_of_the_service_looks_like_a_misspelt_variable_of_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in (KEY_VARIABLE, PLAINTEXT_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    for name in Settings.model_fields:
        if name != "allow_plaintext":
            monkeypatch.setenv(f"OPSERVE_{name.upper()}", "1")
    Client("127.0.0.1:50051").close()
