"""The events of an experiment as a log of decisions with rewards, read in constant memory."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from msgspec import Struct
from msgspec.json import Decoder

from glcb._api.requests import Activation, EventBound, NewArm
from glcb._errors import StorageError
from glcb.bandit.reward_rules import RewardRules
from glcb.evaluate.formats.tables import MAX_PENDING, Joiner
from glcb.evaluate.rows import CHUNK_ROWS, LogRow
from glcb.service.core import export
from glcb.service.events import Event
from glcb.service.storage.chain import checked_events, first_link
from glcb.service.storage.database import Database
from glcb.service.storage.rows import Pruned

_ACTIVATION = Decoder(Activation)
_NEW_ARM = Decoder(NewArm)
_UNKNOWN_DECISION = "unknown decision"
_REPORT_EVENTS = 1000

Report = Callable[[int, int], None]
"""Called with the number of events read so far, and of all."""


class _Request(Struct):
    """The part of a decision request that matters here; the rest is skipped."""

    deferred: bool = False


_REQUEST = Decoder(_Request)


class _Open(NamedTuple):
    """A decision that has not timed out."""

    at: float
    arm: str
    reward: float | None


class _Settler:
    """Delays the rewards of decisions until they have timed out, as the experiment does.

    Otherwise the decisions at the end of the log that have a reward already would count, and those that will
    have a default reward would not.
    """

    def __init__(self, rules: RewardRules) -> None:
        self._rules = rules
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def add(self, row: export.Row) -> None:
        """Add a decision or a reward."""
        name = row["id"]
        if row["event"] == "decision":
            self._open[name] = _Open(row["time"], row["arm"], None)
        elif (decision := self._open.get(name)) is not None:
            self._open[name] = decision._replace(reward=self._rules.aggregate(decision.reward, row["reward"]))

    def remove(self, arm: str | None) -> None:
        """Forget decisions that can no longer get a reward: those of an arm, or all."""
        kept = [] if arm is None else [item for item in self._open.items() if item[1].arm != arm]
        self._open = OrderedDict(kept)

    def due(self, now: float) -> Iterator[export.Row]:
        """Yield the rewards of decisions that have timed out."""
        assert self._rules.reward_timeout is not None
        while self._open:
            name, decision = next(iter(self._open.items()))
            if decision.at + self._rules.reward_timeout > now:
                return
            del self._open[name]
            reward = self._rules.outcome(decision.reward)
            if reward is not None:
                yield {"event": "outcome", "id": name, "time": now, "reward": reward}


class EventLog:
    """The decisions of an experiment up to now.

    Parameters
    ----------
    database
        Where the events are.
    experiment
        The id of the experiment.
    rules
        How the rewards of a decision become one.
    now
        The time of the evaluation.
    after, before
        The range of the decisions.
    """

    def __init__(
        self,
        database: Database,
        experiment: int,
        rules: RewardRules,
        now: float,
        after: EventBound | None = None,
        before: EventBound | None = None,
    ) -> None:
        self._database, self._experiment = database, experiment
        self._rules, self._now = rules, now
        self._pruned = database.pruned(experiment)
        self.last = database.last_sequence(experiment)
        """The sequence number of the last event."""
        self._after = max(self._after_bound(after), self._pruned.sequence)
        self._before = self.last + 1 if before is None else self._before_bound(before)
        self.times: list[float] = []
        """The times of the first decision, and of the last one of every chunk."""

    @property
    def pruned(self) -> Pruned:
        """What was pruned before the first event of the log."""
        return self._pruned

    def _after_bound(self, bound: EventBound | None) -> int:
        """Return the last sequence number before the range."""
        if isinstance(bound, datetime):
            return self._first_at(bound) - 1
        return min(bound or 0, self.last)

    def _before_bound(self, bound: EventBound) -> int:
        """Return the first sequence number after the range."""
        return self._first_at(bound) if isinstance(bound, datetime) else bound

    def _first_at(self, time: datetime) -> int:
        """Return the sequence number of the first event at or after a time. Times never decrease."""
        numbers = range(self._pruned.sequence + 1, self.last + 1)
        return numbers.start + bisect_left(numbers, time.timestamp(), key=self._time_of)

    def _time_of(self, sequence: int) -> float:
        event = self._database.event(self._experiment, sequence)
        if event is None:
            raise StorageError(f"event {sequence} is missing")
        return event.at

    # ---- rows -----------------------------------------------------------------------------------

    def rows(self, report: Report = lambda done, total: None) -> Iterator[LogRow]:
        """Yield the decisions whose reward is known, and the others as refused rows.

        Raises
        ------
        StorageError
            Events are missing or have been altered.
        """
        self.times = []
        evaluated, latest = 0, 0.0
        for row in self._joined(report):
            if row.decision is not None:
                assert row.decision.time is not None
                latest = row.decision.time
                evaluated += 1
                if evaluated == 1 or evaluated % CHUNK_ROWS == 0:
                    self.times.append(latest)
            if row.reason != _UNKNOWN_DECISION:  # a reward of a decision outside the range
                yield row
        self.times.append(latest)

    def _joined(self, report: Report) -> Iterator[LogRow]:
        total = self.last - self._after
        joiner = Joiner(self._rules.default_reward if self._rules.reward_timeout is None else None)
        settler = None if self._rules.reward_timeout is None else _Settler(self._rules)
        deferred: OrderedDict[str, export.Row] = OrderedDict()
        for event in self._events():
            done = event.sequence - self._after
            if done % _REPORT_EVENTS == 0:
                report(done, total)
            share = done / total
            if settler is not None:
                for outcome in settler.due(event.at):
                    yield from joiner.add(outcome, share)
            if event.kind == "replace_model" and settler is not None:
                settler.remove(None)
            elif event.kind == "remove_arm" and settler is not None:
                settler.remove(_NEW_ARM.decode(event.request).name)
            else:
                for row in self._shown(event, deferred):
                    if settler is not None:
                        settler.add(row)
                    if settler is None or row["event"] == "decision":
                        yield from joiner.add(row, share)
        if settler is not None:
            for outcome in settler.due(self._now):
                yield from joiner.add(outcome, 1.0)
        yield from joiner.finish()

    def _shown(self, event: Event, deferred: OrderedDict[str, export.Row]) -> Iterator[export.Row]:
        """Yield rewards, and decisions in the range; deferred ones once they are activated, as of then."""
        if event.kind == "activate":
            activated = deferred.pop(_ACTIVATION.decode(event.request).id, None)
            if activated is not None:
                yield {**activated, "time": event.at}
        elif event.kind == "reward" or (event.kind == "decide" and event.sequence < self._before):
            for row in export.rows(event):
                if row["event"] == "decision" and _REQUEST.decode(event.request).deferred:
                    deferred[row["id"]] = row
                    if len(deferred) > MAX_PENDING:
                        deferred.popitem(last=False)
                elif row["event"] in ("decision", "reward"):  # else a slot of a ranking
                    yield row

    def _events(self) -> Iterator[Event]:
        """Yield the events after the beginning of the range; raise StorageError if the chain is broken."""
        try:
            link = self._link_before()
            linked = self._database.linked_events(self._experiment, self._after, self.last)
            yield from checked_events(linked, self._after + 1, link)
        except StorageError:
            if self._database.pruned(self._experiment) == self._pruned:
                raise
            raise StorageError("events were pruned during the evaluation: start it again") from None

    def _link_before(self) -> bytes:
        if self._after == 0:
            return first_link(self._experiment)
        if self._after == self._pruned.sequence:
            return self._pruned.link
        for _, link in self._database.linked_events(self._experiment, self._after - 1, self._after):
            return link
        raise StorageError(f"event {self._after} is missing")
