"""The command `opserve top`: devices, queue and tenants as they change, or once."""

import threading
import time
from collections.abc import Generator
from contextlib import closing, suppress
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from opserve.v1.admin_service_pb2 import GetActivityResponse
from opserve_client._sync.client import Client
from opserve_client.access import DEFAULT_ADDRESS
from opserve_client.cli_connection import Address, connected
from opserve_client.cli_rows import UNBOUNDED, AsJson, show_json
from opserve_client.errors import OpserveError, unreachable
from opserve_client.top_page import SERIES, device_rows, is_admin, page, tenant_rows
from opserve_client.watched import WatchedState

_REDRAW_S = 1.0
_PAST_S = 120
"""Seconds of the past in a sparkline, at most one character each."""


def top(
    context: typer.Context,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Show the current activity once, and exit.")
    ] = False,
    interval_s: Annotated[
        float, typer.Option(min=0.5, help="Seconds between two updates of the tenants.")
    ] = 5.0,
    as_json: AsJson = False,
    address: Address = DEFAULT_ADDRESS,
) -> None:
    """Show devices, the queue and tenants as they change, until Ctrl-C.

    A key with the scope admin shows all tenants; device_s is their device time of today, in
    seconds. The service audits each update of them. Other keys show the use of their own tenant.
    --json shows the activity once.
    """
    with connected(context, address) as client:
        if as_json or once:
            _show_once(client, as_json=as_json)
            return
        # Ctrl-C is the normal end of the command.
        with suppress(KeyboardInterrupt), Live(screen=True, auto_refresh=False) as live:
            _show(client, live, interval_s=interval_s)


def _show_once(client: Client, *, as_json: bool) -> None:
    with closing(client.watch()) as states:
        state = next(states)
    seen = client.admin.get_activity() if is_admin(state) else None
    if as_json:
        tenants = tenant_rows(seen, None) if seen else []
        show_json({"devices": device_rows(state), "tenants": tenants})
        return
    console = Console(markup=False, highlight=False)
    series = client.get_series(*SERIES, last_s=_PAST_S)
    shown = page(state, series, width=console.width, tenants=seen)
    console.print(shown, width=None if console.is_terminal else UNBOUNDED)


def _show(client: Client, live: Live, *, interval_s: float) -> None:
    """Draws the page once a second until the watch fails."""
    watch = _Watch(client)
    before: GetActivityResponse | None = None
    seen: GetActivityResponse | None = None
    read_s = -interval_s
    while watch.failure is None:
        now_s = time.monotonic()
        if is_admin(watch.state) and now_s - read_s >= interval_s:
            before, seen, read_s = seen, client.admin.get_activity(), now_s
        series = client.get_series(*SERIES, last_s=_PAST_S)
        shown = page(
            watch.state,
            series,
            width=live.console.width,
            passed_s=now_s - watch.read_s,
            tenants=seen,
            before=before,
        )
        live.update(shown, refresh=True)
        time.sleep(min(_REDRAW_S, interval_s))
    raise watch.failure


class _Watch:
    """The latest state of a watch, which a thread reads.

    Attributes:
        state: The state.
        read_s: When it was read, in seconds of the monotonic clock.
        failure: What ended the watch; None while it runs.
    """

    def __init__(self, client: Client) -> None:
        states = client.watch()
        self.failure: OpserveError | None = None
        self._hold(next(states))
        # A read of a connection cannot be interrupted: the thread ends with the process.
        threading.Thread(target=self._follow, args=(states,), daemon=True).start()

    def _hold(self, state: WatchedState) -> None:
        self.state, self.read_s = state, time.monotonic()

    def _follow(self, states: Generator[WatchedState]) -> None:
        try:
            for state in states:
                self._hold(state)
            self.failure = unreachable("The service ended: start the command again.")
        except OpserveError as error:
            self.failure = error
