"""A plugin of pytest: a test for each case of a suite, and a session for tests of one's own.

    pytest --opserve-suite=standard --opserve-target=package.module:function

It stands beside opserve_client: a run of pytest that asks for nothing of this waits for nothing.
"""

from collections.abc import Generator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from opserve_client import Session
    from opserve_pytest.cases import Held

_HELD: pytest.StashKey["Held"] = pytest.StashKey()
_STACK: pytest.StashKey[ExitStack] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("opserve", "conformance of kernels")
    group.addoption("--opserve-suite", default="", help="smoke, standard, exhaustive or a file")
    group.addoption(
        "--opserve-target", default="opserve", help="what is tried; see opserve conform"
    )
    group.addoption("--opserve-server", default="", help="service to ask; none starts one")
    group.addoption(
        "--opserve-accuracy",
        choices=("direct", "fast"),
        default="direct",
        help="error bound of sessions' results: of each result's own products, or with Winograd's "
        "algorithm",
    )
    group.addoption(
        "--opserve-documented-rules",
        choices=("error", "warn"),
        default="error",
        help="answer of sessions to a call that breaks a rule which only the vendor's page states",
    )
    group.addoption("--opserve-seed", type=int, help="that inputs are drawn by")
    group.addoption(
        "--opserve-match", action="append", help="only cases whose id, source or tag is like it"
    )
    group.addoption(
        "--opserve-history", default="", help="adds the run to the server's, of a target so named"
    )


def pytest_configure(config: pytest.Config) -> None:
    """What is started in between ends with the run."""
    config.stash[_STACK] = ExitStack()
    if config.getoption("--opserve-history"):
        if not config.getoption("--opserve-server"):
            raise pytest.UsageError("--opserve-history: allowed with --opserve-server")
        if config.getoption("numprocesses", default=None):
            raise pytest.UsageError("--opserve-history: allowed without -n: one process has all")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends it."""
    config.stash[_STACK].close()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Sends what was judged; pytest ends with 2 where that fails."""
    config = session.config
    target, held = config.getoption("--opserve-history"), config.stash.get(_HELD, None)
    if target and held is not None:
        from opserve_pytest.cases import report  # noqa: PLC0415  only where it is asked for

        report(held, target)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Puts a test for each case behind all others."""
    if config.getoption("--opserve-suite"):
        from opserve_pytest.cases import case_items  # noqa: PLC0415  only where it is asked for

        items += case_items(session, lambda: _held(session))


@pytest.fixture
def opserve_session(request: pytest.FixtureRequest) -> Generator["Session"]:
    """A session on a device of ascend910b; parametrise it indirectly for another profile."""
    profile: Any = getattr(request, "param", "ascend910b")
    held = _held(request.session)
    terms = held.terms
    with held.client.open_session(
        profile, accuracy=terms.accuracy, documented_rules=terms.documented_rules
    ) as session:
        yield session


def _held(session: pytest.Session) -> "Held":
    """The service and what cases are tried with, from the first one that asks on."""
    from opserve_pytest.cases import held  # noqa: PLC0415  only where it is asked for

    stash = session.config.stash
    if _HELD not in stash:
        stash[_HELD] = stash[_STACK].enter_context(held(session))
    return stash[_HELD]
