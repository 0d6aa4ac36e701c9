"""Recorded actions of clients and workers of a simulated service, and its guarantees."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from opserve_server.core.history import HistoryEntry, LostEntries, Outcome, WorkKind
from simulation.watcher import Watcher, check_reported
from simulation.worker import Ran

DEATHS_LIMIT = 2
UNFINISHED = ("died", "lost")
"""Outcomes of runs that are repeated: the worker died during the run, or in a pause."""


@dataclass(slots=True, eq=False)
class Submitted:
    """A call that a client executed, once.

    Attributes:
        name: Its identity among all calls: the parameters of its plan.
        executor: Its handle.
    """

    name: tuple[int, ...]
    executor: int


@dataclass(slots=True, eq=False)
class Recorded:
    """A record of an event: everything that its stream had to do before it."""

    behind: tuple[Submitted, ...]


@dataclass(slots=True, eq=False)
class StreamHistory:
    """Calls of one stream, in order.

    Attributes:
        calls: Its calls.
        after: For each of them, the calls of other streams that it waits for.
        synchronised: Returned synchronises: how many calls they covered, when, and the executor
            whose failure they reported (0: none).
        hurried: Numbers of synchronises that may tell another failure than that of the first call:
            the stream was aborted before them, or a call had a deadline.
    """

    calls: list[Submitted] = field(default_factory=list[Submitted])
    waits_for: list[Submitted] = field(default_factory=list[Submitted])
    after: list[tuple[Submitted, tuple[Submitted, ...]]] = field(
        default_factory=list[tuple[Submitted, tuple[Submitted, ...]]]
    )
    synchronised: list[tuple[int, float, int]] = field(default_factory=list[tuple[int, float, int]])
    hurried: set[int] = field(default_factory=set[int])

    def abort(self) -> None:
        """The stream is aborted; later calls wait for nothing."""
        self.waits_for.clear()
        self.hurry()

    def hurry(self) -> None:
        """Work is aborted or has a deadline: its failures are ordered by their times."""
        self.hurried.add(len(self.synchronised))

    def submit(self, call: Submitted) -> None:
        """A call is asked for; whether it was taken is not known while its answer is awaited."""
        self.after.append((call, tuple(self.waits_for)))
        self.calls.append(call)

    def take_back(self, call: Submitted) -> None:
        """The last call was refused."""
        assert self.calls.pop() is call
        self.after.pop()

    def record(self) -> Recorded:
        """An event was recorded."""
        return Recorded((*self.calls, *self.waits_for))

    def wait(self, record: Recorded) -> None:
        """The stream waits for a record."""
        self.waits_for.extend(record.behind)


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of all workers, by call."""

    by_name: dict[tuple[int, ...], list[Ran]]

    @classmethod
    def of(cls, log: Iterable[Ran]) -> "Runs":
        """Sorts a log."""
        by_name: defaultdict[tuple[int, ...], list[Ran]] = defaultdict(list)
        for ran in log:
            by_name[ran.parameters].append(ran)
        return cls(dict(by_name))

    def of_call(self, call: Submitted) -> list[Ran]:
        """Its runs, in order; none where it was dropped."""
        return self.by_name.get(call.name, [])

    def failed(self, call: Submitted) -> bool:
        """Whether it was given up: its last run did not end well, or it had none."""
        runs = self.of_call(call)
        return not runs or runs[-1].outcome != "done"


def check_at_most_once(runs: Runs, submitted: Iterable[Submitted]) -> None:
    """A call runs under one number; again only after its worker died, and not if two died at it."""
    taken = {call.name for call in submitted}
    for name, found in runs.by_name.items():
        assert name in taken, f"a call that no client submitted ran: {found}"
        assert len({ran.call_id for ran in found}) == 1, f"a call ran twice: {found}"
        deaths = [ran.outcome for ran in found].count("died")
        assert deaths <= DEATHS_LIMIT, f"a call was tried too often: {found}"
        for earlier in found[:-1]:
            assert earlier.outcome in UNFINISHED, f"a call ran again though none died: {found}"


def check_tenants(log: Iterable[Ran]) -> None:
    """Calls of one tenant run one after another, in the order in which they were dispatched."""
    ends: defaultdict[tuple[int, int], tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for ran in sorted(log, key=lambda ran: (ran.start_s, ran.call_id)):
        call_id, end_s = ends[ran.worker, ran.flow]
        assert ran.call_id > call_id, f"a call of its tenant went before: {ran}"
        assert ran.start_s >= end_s, f"two calls of one tenant were begun: {ran}"
        ends[ran.worker, ran.flow] = ran.call_id, ran.end_s


def check_order(runs: Runs, stream: StreamHistory) -> None:
    """Calls of a stream run one after another, in the order in which they were taken."""
    end_s = 0.0
    for call in stream.calls:
        for ran in runs.of_call(call):
            assert ran.start_s >= end_s, f"executor {call.executor} overtook another: {ran}"
            end_s = ran.end_s


def check_events(runs: Runs, stream: StreamHistory) -> None:
    """A call behind a wait begins when all that the event marked is over."""
    for call, earlier in stream.after:
        for ran in runs.of_call(call):
            for other in earlier:
                for before in runs.of_call(other):
                    assert before.end_s <= ran.start_s, f"{ran} did not wait for {before}"


def check_synchronised(runs: Runs, stream: StreamHistory) -> None:
    """A synchronise returns when all work has ended, and reports the first failed call, once."""
    reported = 0
    for number, (covered, at_s, executor) in enumerate(stream.synchronised):
        calls = stream.calls[:covered]
        for ran in (ran for call in calls for ran in runs.of_call(call)):
            assert ran.end_s <= at_s, f"a synchronise at {at_s} did not wait for {ran}"
        failed = [call.executor for call in calls[reported:] if runs.failed(call)]
        if number in stream.hurried:  # a call may end while it is being stopped
            assert executor in [0, *(call.executor for call in calls[reported:])]
            assert executor or not failed, f"reported none, failed {failed}"
        else:
            assert executor == (failed[0] if failed else 0), f"reported {executor}, failed {failed}"
        reported = covered


def check_watched(runs: Runs, stream: StreamHistory, watcher: Watcher) -> None:
    """A watcher received each call once, in the order of endings, with its outcome."""
    check_reported(watcher.reported)
    entries = {
        news.handle: news
        for news in watcher.reported
        if isinstance(news, HistoryEntry) and news.kind is WorkKind.EXECUTE
    }
    done = [call for call in stream.calls if _was_done(entries.get(call.executor))]
    for call in done:
        assert not runs.failed(call), f"executor {call.executor} was reported as done"
    sequences = [entries[call.executor].sequence for call in done]
    assert sequences == sorted(sequences), "calls were reported in another order"
    if watcher.whole and not any(isinstance(news, LostEntries) for news in watcher.reported):
        answered = [call.executor for call in stream.calls[:-1]]  # the last may have been refused
        assert set(answered) <= set(entries), "a call was never reported"


def _was_done(entry: HistoryEntry | None) -> bool:
    return entry is not None and entry.outcome is Outcome.DONE
