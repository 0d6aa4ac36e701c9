"""The location of a store, and the shown part of its URL."""

from pathlib import Path

import pytest

from opserve_server.store.location import File, Server, default_url, location_of


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:////var/lib/opserve.db", Path("/var/lib/opserve.db")),
        ("sqlite:///opserve.db", Path("opserve.db")),
        ("sqlite:///~/opserve.db", Path.home() / "opserve.db"),
    ],
)
def test_a_file_is_named_by_its_path(url: str, path: Path) -> None:
    location = location_of(url)
    assert location == File(path)
    assert str(location) == f"sqlite:///{path.absolute()}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:pass%2Fword@db.farm:5433/ops", "postgresql://db.farm:5433/ops"),
        ("postgresql://db.farm/ops?password=word&x=a%40b/c", "postgresql://db.farm/ops"),
        ("postgresql://ann:word@/ops?host=/run/postgresql", "postgresql:///ops"),
        ("postgresql://ann:word@a:1,b:2/ops", "postgresql://a:1,b:2/ops"),
        ("postgresql://ann:word@[::1]:5433", "postgresql://[::1]:5433"),
    ],
)
def test_of_a_server_no_password_is_shown(url: str, shown: str) -> None:
    location = location_of(url)
    assert isinstance(location, Server)
    assert location.url == url
    assert str(location) == shown
    assert "word@" not in repr(location)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "opserve.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///file?mode=memory",
        "mysql://db.farm/ops",
        "postgresql+psycopg://db.farm/ops",
        "postgresql://ann:pass/word@db.farm/ops",
        "postgresql://ann:pass?word@db.farm/ops",
        "postgresql://ann:pass#word@db.farm/ops",
        "postgresql://ann:pass@word@db.farm/ops",
    ],
)
def test_another_form_is_refused_with_the_allowed_ones(url: str) -> None:
    with pytest.raises(ValueError, match=r"^sqlite:///file, or postgresql://user:password@host/"):
        location_of(url)


def test_each_user_has_a_separate_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_url() == "sqlite:////state/opserve/opserve.db"
    monkeypatch.setenv("XDG_STATE_HOME", "")
    monkeypatch.setenv("HOME", "/ann")
    assert default_url() == "sqlite:////ann/.local/state/opserve/opserve.db"
