"""The commands of docs/how-to/five-teams.md: a certificate, a key for each team, remote clients."""

import shutil
from pathlib import Path

import pytest

from opserve_client.access import VARIABLES
from opserve_client.private_service import private_service
from skips import needs_program
from test_examples import blocks, run_shell

pytestmark = pytest.mark.system
PAGE = "docs/how-to/five-teams.md"
needs_openssl = needs_program(
    "openssl", there=shutil.which("openssl") is not None, package="openssl"
)


@pytest.mark.slow
@needs_openssl
def test_five_teams_share_a_service_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    machine, _, administrator, team = blocks(PAGE, "sh")
    (program,) = blocks(PAGE, "python")
    run_shell(machine, tmp_path)

    with private_service(
        tls_certificate_file=f"{tmp_path / 'server.pem'}",
        tls_key_file=f"{tmp_path / 'server.key'}",
        store_url=f"sqlite:///{tmp_path / 'opserve.db'}",
        no_keys="false",
    ) as service:
        farm = f"localhost:{service.grpc.rpartition(':')[2]}"
        run_shell(administrator.replace("farm:50051", farm), tmp_path)
        run_shell(team.replace("farm:50051", farm), tmp_path)
        monkeypatch.setenv("OPSERVE_ADDRESS", f"grpcs://{farm}")
        monkeypatch.setenv("OPSERVE_CA", "server.pem")
        monkeypatch.setenv("OPSERVE_API_KEY", (tmp_path / "vision.key").read_text().strip())
        exec(compile(program, PAGE, "exec"), {})  # noqa: S102  # our own

    assert capsys.readouterr().out == "(1, 3, 3)\n"
    assert not [path for path in tmp_path.glob("*.key") if path.stat().st_mode & 0o077]
    keys = {path.read_text() for path in tmp_path.glob("*.key")}
    assert len(keys) == 7, "of the administrator, of five teams, and of the certificate"
