"""The pytest plugin: a test for each case of a suite, and a session fixture for your own tests.

    pytest --opserve-suite=standard --opserve-target=package.module:function

The package is apart from opserve_client: a run of pytest without its options and fixture does not
import the client.
"""

from collections.abc import Generator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from opserve_client import Session
    from opserve_pytest.cases import RunState

_STATE: pytest.StashKey["RunState"] = pytest.StashKey()
_STACK: pytest.StashKey[ExitStack] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the plugin's options."""
    group = parser.getgroup("opserve", "conformance of kernels")
    group.addoption(
        "--opserve-suite",
        default="",
        help="suite to run: smoke, standard, exhaustive, a file of definitions, benchdnn:FILE, "
        "miopen:FILE, onnx:FOLDER or msprobe:FOLDER",
    )
    group.addoption(
        "--opserve-target",
        default="opserve",
        help="implementation to test, as --target of `opserve conform run`",
    )
    group.addoption("--opserve-server", default="", help="address of the service; none starts one")
    group.addoption(
        "--opserve-accuracy",
        choices=("direct", "fast"),
        default="direct",
        help="error bound of results: direct bounds each by its own products, fast also allows "
        "Winograd's algorithm",
    )
    group.addoption(
        "--opserve-documented-rules",
        choices=("error", "warn"),
        default="error",
        help="answer to a call that breaks a rule which only the vendor's page states: error "
        "rejects the call, warn accepts it with a warning",
    )
    _add_selection(group)
    group.addoption(
        "--opserve-history",
        default="",
        help="add the run to the history of --opserve-server, under this name of the target",
    )


def _add_selection(group: pytest.OptionGroup) -> None:
    group.addoption("--opserve-seed", type=int, help="seed of the random inputs")
    group.addoption(
        "--opserve-operator",
        action="append",
        help="run only cases of this operator; repeat for several",
    )
    group.addoption(
        "--opserve-match",
        action="append",
        help="run only cases whose id, source or tag matches this pattern (*, ?)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Checks the options, and prepares the end of the resources that the run opens."""
    config.stash[_STACK] = ExitStack()
    if config.getoption("--opserve-history"):
        if not config.getoption("--opserve-server"):
            raise pytest.UsageError("--opserve-history needs a service: give --opserve-server too.")
        if config.getoption("numprocesses", default=None):
            raise pytest.UsageError(
                "--opserve-history does not work with -n, because no process has all results: give "
                "one of them."
            )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Closes the resources of the run."""
    config.stash[_STACK].close()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Sends the results to the history; if that fails, pytest ends with 2."""
    config = session.config
    target, state = config.getoption("--opserve-history"), config.stash.get(_STATE, None)
    if target and state is not None:
        from opserve_pytest.cases import report  # noqa: PLC0415  slow, only if used

        report(state, target)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Adds a test for each case after all other tests."""
    if config.getoption("--opserve-suite"):
        from opserve_pytest.cases import case_items  # noqa: PLC0415  slow, only if used

        items += case_items(session, lambda: _run_state(session))


@pytest.fixture
def opserve_session(request: pytest.FixtureRequest) -> Generator["Session"]:
    """A session on a device of ascend910b; indirect parametrisation selects another profile."""
    profile: Any = getattr(request, "param", "ascend910b")
    state = _run_state(request.session)
    options = state.session_options
    with state.client.open_session(
        profile, accuracy=options.accuracy, documented_rules=options.documented_rules
    ) as session:
        yield session


def _run_state(session: pytest.Session) -> "RunState":
    """Returns the state of the run; the first use starts or connects to the service."""
    from opserve_pytest.cases import ending_run, run_state  # noqa: PLC0415  slow, only if used

    stash = session.config.stash
    if _STATE not in stash:
        with ending_run(session.config):
            stash[_STATE] = stash[_STACK].enter_context(run_state(session))
    return stash[_STATE]
