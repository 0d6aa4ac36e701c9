"""make bench-tenants: latency of seven tenants beside a hostile or an ordinary eighth one."""

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.progress import track
from rich.table import Table

from benchmarks.hostile import BEHAVIOURS
from benchmarks.key_costs import KEY_P50, REJECTIONS, key_costs
from benchmarks.measure import figure, percentile
from benchmarks.report import Goal, console, short, show_goals, show_rows, write_goals
from benchmarks.rounds import Pair, at_least, at_most, measure_rounds, rows
from benchmarks.service_with_keys import Load, service_with_keys
from benchmarks.tenant_processes import (
    KINDS,
    TENANTS,
    Measured,
    measure_work_costs,
    tenant_processes,
)
from benchmarks.weights import HEAVY, LIGHT, SHARE, share_of_the_heavy
from benchmarks.wire import secrets_in
from opserve_client.private_service import private_service
from opserve_server.core.tenants import Quota, Tenant

ROUNDS = 5
SECONDS = 5.0
"""Length of each measurement: with an ordinary eighth tenant, and with a hostile one."""
WARM_UP_S = 1.0
P99_LIMIT = 2.0
KEY_LIMIT = 1.05
REJECTIONS_LIMIT = 0.5
SHARE_LIMIT_POINTS = 3.0
EVERYTHING = "all behaviours at once"
ALL_BEHAVIOURS: Mapping[str, Sequence[str]] = {
    **{name: [name] for name in BEHAVIOURS},
    EVERYTHING: list(BEHAVIOURS),
}
SETTINGS = {
    "devices": '["ascend910b"]',
    "shared_memory": "false",  # tenants usually run on other machines
    "log_level": "ERROR",
}
TITLE = (
    "calls of seven tenants, ms: median of {rounds} rounds, the eighth tenant ordinary -> hostile, "
    "at the same load; the ratio of p99 is of one round"
)
Percentiles = Mapping[int, Pair]


@dataclass(frozen=True, slots=True)
class Found:
    """Results of all rounds.

    Attributes:
        rounds: Percentiles of the seven's calls in ms, by behaviour and kind. The subject is beside
            the hostile tenant, the yardstick beside an ordinary one that causes as much load.
        loads: Load of the service by behaviour: with the ordinary tenant and with the hostile one.
        errors: Errors of the seven beside the hostile tenant.
        errors_before: Errors of the seven beside the ordinary tenant.
        seen: Secrets of the seven in answers to the hostile tenant.
    """

    rounds: Mapping[tuple[str, str], list[Percentiles]] = field(
        default_factory=lambda: defaultdict(list)
    )
    loads: Mapping[str, list[tuple[Load, Load]]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list[str])
    errors_before: list[str] = field(default_factory=list[str])
    seen: list[str] = field(default_factory=list[str])


def main() -> None:
    """Measures, prints, and writes benchmarks/out/tenants.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="number of rounds")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="seconds of a measurement")
    parser.add_argument(
        "--behaviour",
        action="append",
        choices=list(ALL_BEHAVIOURS),
        help="measure only this behaviour of the hostile tenant; repeat for several",
    )
    given = parser.parse_args()
    chosen = given.behaviour or list(ALL_BEHAVIOURS)
    found = measured(chosen, rounds=given.rounds, seconds=given.seconds)
    show(found, rounds=given.rounds)
    goals = goals_of(found) + ([] if given.behaviour else goals_of_keys(rounds=given.rounds))
    show_goals(goals)
    for problem in sorted({*found.errors, *found.errors_before, *found.seen}):
        console().print(problem, style="red", markup=False)
    console().print(f"written to {write_goals('tenants', goals)}")


def measured(chosen: Sequence[str], *, rounds: int, seconds: float) -> Found:
    """Measures each behaviour in each round, and next to it the ordinary load; round 0 warms up."""
    found = Found()
    with TemporaryDirectory() as folder, ExitStack() as stack:
        answers = Path(folder) / "answers"
        service = stack.enter_context(service_with_keys(TENANTS, **SETTINGS))
        tenants = stack.enter_context(tenant_processes(service, answers))
        costs = measure_work_costs(tenants)
        for number in track(range(rounds + 1), description=f"{rounds} rounds"):
            each_s = seconds if number else WARM_UP_S
            for name in chosen:
                beside = tenants.beside_hostile(ALL_BEHAVIOURS[name], seconds=each_s, seed=number)
                as_much = costs.as_much_as(beside.load, seconds=each_s)
                before = tenants.beside_ordinary(as_much, seconds=each_s, seed=number)
                found.errors.extend(f"{name}: {error}" for error in beside.errors)
                found.errors_before.extend(f"before {name}: {error}" for error in before.errors)
                if number:
                    found.loads[name].append((before.load, beside.load))
                    _keep(found, name, before, beside)
        secrets = tenants.secrets(service.keys)
        stack.close()  # the hostile process ends, and has written all answers
        found.seen.extend(secrets_in(answers, secrets))
    return found


def _keep(found: Found, behaviour: str, before: Measured, beside: Measured) -> None:
    for kind in KINDS:
        with_it, without = beside.milliseconds[kind], before.milliseconds[kind]
        found.rounds[behaviour, kind].append(
            {
                percent: Pair(
                    subject=percentile(with_it, percent), yardstick=percentile(without, percent)
                )
                for percent in (50, 99)
            }
        )


def show(found: Found, *, rounds: int) -> None:
    console().print(_table_of_loads(found))
    table = Table("the eighth tenant", "calls", "p50", "p99", "ratio of p99")
    table.title = TITLE.format(rounds=rounds)
    for (behaviour, kind), of_rounds in found.rounds.items():
        cells = [
            _from_to(
                [pairs[percent].yardstick for pairs in of_rounds],
                [pairs[percent].subject for pairs in of_rounds],
            )
            for percent in (50, 99)
        ]
        ratio = figure([pairs[99].subject / pairs[99].yardstick for pairs in of_rounds])
        spread = f"{short(ratio.value)} ({short(ratio.low)} to {short(ratio.high)})"
        table.add_row(behaviour, kind, *cells, spread)
    console().print(table)


def _table_of_loads(found: Found) -> Table:
    table = Table("the eighth tenant", "calls", "device time, s")
    table.title = "load of the service in one measurement, the eighth tenant ordinary -> hostile"
    for behaviour, of_rounds in found.loads.items():
        loads = list(zip(*of_rounds, strict=True))
        calls = _from_to(*([load.calls for load in each] for each in loads))
        device_s = _from_to(*([load.device_s for load in each] for each in loads))
        table.add_row(behaviour, calls, device_s)
    return table


def _from_to(ordinary: Sequence[float], hostile: Sequence[float]) -> str:
    return f"{short(figure(ordinary).value)} -> {short(figure(hostile).value)}"


def goals_of(found: Found) -> list[Goal]:
    """Returns the goals for latencies, errors and secrets."""
    return [
        *(
            at_most(
                P99_LIMIT,
                f"{behaviour}: p99 of others' {kind} over that beside an ordinary tenant",
                [pairs[99] for pairs in of_rounds],
            )
            for (behaviour, kind), of_rounds in found.rounds.items()
        ),
        _none("errors of others beside a hostile tenant", found.errors),
        _none("errors of others beside an ordinary tenant", found.errors_before),
        _none("secrets of others that the hostile tenant saw", found.seen),
    ]


def goals_of_keys(*, rounds: int) -> list[Goal]:
    """Measures the costs of keys and quotas, and the shares by weight, on separate services."""
    over_quota = Tenant(name="over-quota", quota=Quota(calls_per_s=1.0))
    with ExitStack() as stack:
        without_keys = stack.enter_context(private_service(**SETTINGS))
        service = stack.enter_context(service_with_keys([LIGHT, HEAVY, over_quota], **SETTINGS))
        callers = stack.enter_context(
            key_costs(
                without_keys.grpc,
                service.addresses.grpc,
                key=service.keys[LIGHT.name],
                over_quota_key=service.keys[over_quota.name],
            )
        )
        costs = measure_rounds([callers.measure], rounds=rounds)
        # Last, so that both services have the same history while their calls are compared.
        shares = [asyncio.run(share_of_the_heavy(service, seconds=SECONDS)) for _ in range(rounds)]
    show_rows("costs of keys and quotas", rows(costs))
    beside = max(abs(share - SHARE) * 100 for share in shares)
    return [
        at_most(
            KEY_LIMIT, "unary GetWorkspaceSize: p50 with a key over that without", costs[KEY_P50]
        ),
        at_least(
            REJECTIONS_LIMIT, "calls/s that a quota rejects over admitted ones", costs[REJECTIONS]
        ),
        Goal(
            goal="weights 1:3 on a busy device: points beside 25 % and 75 %, the worst round",
            value=beside,
            target=SHARE_LIMIT_POINTS,
            better="lower",
        ),
    ]


def _none(what: str, found: Sequence[str]) -> Goal:
    return Goal(goal=what, value=len(found), target=0, better="lower")


if __name__ == "__main__":
    main()
