"""Certificates that cannot be read are refused by the setting that names them."""

from pathlib import Path

import pytest
import trustme

from opserve_server.settings import SettingRefused, Settings
from opserve_server.tls import tls_of


@pytest.mark.parametrize("missing", ["tls_certificate_file", "tls_key_file", "client_ca_file"])
def test_a_file_that_cannot_be_read_is_named_with_its_setting(tmp_path: Path, missing: str) -> None:
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "all.pem")
    files = dict.fromkeys(
        ("tls_certificate_file", "tls_key_file", "client_ca_file"), f"{tmp_path / 'all.pem'}"
    )
    gone = f"{tmp_path / 'gone.pem'}"

    with pytest.raises(SettingRefused) as refusal:
        tls_of(Settings(**(files | {missing: gone})))  # type: ignore[arg-type]  # all are texts
    message = (
        f"{missing} does not accept {gone}; "
        "it accepts a file that can be read (No such file or directory)"
    )
    assert f"{refusal.value}".startswith(message)


def test_a_key_of_another_certificate_is_named_with_both_files(tmp_path: Path) -> None:
    certificate, key = tmp_path / "server.pem", tmp_path / "other.key"
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").cert_chain_pems[0].write_to_path(certificate)
    authority.issue_cert("127.0.0.1").private_key_pem.write_to_path(key)
    with pytest.raises(SettingRefused) as refusal:
        tls_of(Settings(tls_certificate_file=f"{certificate}", tls_key_file=f"{key}"))
    sentence = f"The key {key} (tls_key_file) does not belong to the certificate {certificate} "
    assert f"{refusal.value}".startswith(sentence)
