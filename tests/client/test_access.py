"""Credentials of a client: the calls with them, and those without."""

import re
import secrets
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from opserve_client import AclrtError, AsyncClient, Client, TlsFiles
from opserve_client.access import (
    KEY_VARIABLE,
    PLAINTEXT_VARIABLE,
    VARIABLES,
    access_to,
    default_address,
)
from opserve_client.errors import (
    AuthenticationError,
    OpserveError,
    PermissionDeniedError,
    error_for,
)
from opserve_client.transports import GrpcTransport
from opserve_server.settings import Settings
from sentences import faults_of

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


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    """An authority, and a client's certificate of it with its key."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued = authority.issue_cert("ci.farm")
    issued.private_key_pem.write_to_path(tmp_path / "ci.key")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "ci.pem")
    return TlsFiles(
        ca=tmp_path / "ca.pem", certificate=tmp_path / "ci.pem", key=tmp_path / "ci.key"
    )


def test_files_of_tls_mean_tls(files: TlsFiles) -> None:
    tls = TlsFiles(ca=files.ca)
    assert access_to("farm:1", api_key=KEY, tls=tls, allow_plaintext=False).secure
    with pytest.raises(AclrtError, match="address does not accept http://farm"):
        access_to("http://farm", api_key=None, tls=tls, allow_plaintext=False)


@pytest.mark.parametrize("scheme", ["grpcs", "https"])
def test_files_that_are_not_those_of_tls_are_named_with_their_option(
    scheme: str, files: TlsFiles, tmp_path: Path
) -> None:
    other, foreign = tmp_path / "other.pem", tmp_path / "foreign.key"
    other.write_text("no certificate\n")
    trustme.CA().issue_cert("ci.farm").private_key_pem.write_to_path(foreign)
    wrong = {
        "--ca nope.pem cannot be read (No such file or directory): pass a file in PEM, in Python "
        "with TlsFiles(ca=...).": TlsFiles(ca="nope.pem"),
        f"--ca {other} contains no certificate: ": TlsFiles(ca=other),
        "ci.key needs the certificate of --certificate: ": TlsFiles(key=files.key),
        "are no certificate and its own key": replace(files, key=foreign),
        "nope.key cannot be read": replace(files, key=Path("nope.key")),
        "--key takes a PEM file and was given an API key; did you mean --api-key?": TlsFiles(
            key=Path(KEY)
        ),
    }
    for sentence, given in wrong.items():
        with pytest.raises(AclrtError, match=re.escape(sentence)) as refused:
            Client(f"{scheme}://farm:1", tls=given)
        assert not faults_of(refused.value.message)
        assert "Path(" not in str(refused.value)
        assert KEY not in f"{refused.value!r}{vars(refused.value)}"
    Client(f"{scheme}://farm:1", tls=files).close()


def test_no_message_repeats_a_key() -> None:
    with pytest.raises(AclrtError) as refused:
        Client(f"{KEY}://farm")
    assert KEY not in refused.value.message


def test_variables_have_the_address_and_the_authority(
    files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPSERVE_ADDRESS", raising=False)
    assert default_address() == "127.0.0.1:50051"
    monkeypatch.setenv("OPSERVE_ADDRESS", "grpcs://farm:50051")
    monkeypatch.setenv("OPSERVE_CA", f"{files.ca}")
    access = access_to(default_address(), api_key=None, tls=None, allow_plaintext=None)
    assert (access.place, access.tls) == ("grpcs://farm:50051", TlsFiles(ca=f"{files.ca}"))
    given = TlsFiles(ca=files.certificate)
    access = access_to("https://farm", api_key=None, tls=given, allow_plaintext=None)
    assert access.tls == given
    access = access_to("127.0.0.1:1", api_key=None, tls=None, allow_plaintext=None)
    assert (access.secure, access.tls.ca) == (False, None), "a service without TLS"
    with Client() as client:
        assert "grpcs://farm:50051" in repr(client)


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        (f"{KEY}\r\nx-evil: 1", "contains a blank, a line break or another character"),
        (f"{KEY} ", "contains a blank"),
        ("vision.key", "contains a dot, which only an ID token of three parts has: copy the"),
    ],
    ids=["line break", "blank", "dot"],  # the key differs from process to process
)
def test_a_malformed_key_is_refused_without_being_repeated(key: str, fault: str) -> None:
    with pytest.raises(AclrtError, match=f"The API key {fault}") as refused:
        Client(api_key=key)
    assert '="$(cat FILE)"' in refused.value.message
    assert key.strip() not in f"{refused.value}{vars(refused.value)}"
    assert not faults_of(refused.value.message)


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
    [
        ("OPSERVE_APIKEY", "OPSERVE_API_KEY"),
        ("OPSERVE_ALLOW_PLAINTXT", "OPSERVE_ALLOW_PLAINTEXT"),
        ("OPSERVE_ADRESS", "OPSERVE_ADDRESS"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_one_that_it_means(
    misspelt: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    if meant == PLAINTEXT_VARIABLE:
        monkeypatch.setenv(KEY_VARIABLE, KEY)
    monkeypatch.setenv(misspelt, "true")
    with pytest.raises(AclrtError, match=f"{misspelt} .*{meant}"):
        Client("farm.example:50051")


def test_no_setting_of_the_service_looks_like_a_misspelt_variable_of_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    for name in Settings.model_fields:
        if name != "allow_plaintext":
            monkeypatch.setenv(f"OPSERVE_{name.upper()}", "1")
    Client("127.0.0.1:50051").close()
