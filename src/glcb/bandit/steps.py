"""What happens to a bandit: written to its log first, if it has one, and then done.

Everything that can go wrong is tried before the line is written, and if the line cannot be written, nothing
is done. So the log tells at every moment what the bandit knows, and reading it makes another one of the same
knowledge.
"""

import math
from collections.abc import Collection
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from glcb import _validation
from glcb._errors import InvalidInput
from glcb._types import Arm
from glcb.bandit.config import Parameters
from glcb.bandit.encoding.encoder import Encoder
from glcb.bandit.encoding.reading import Reading
from glcb.bandit.logs import Layout, Learner, LogFile, LogReport
from glcb.bandit.logs import format as events
from glcb.bandit.logs.report import Progress
from glcb.bandit.pending import Waiting
from glcb.bandit.reward_rules import key_number, read_clock
from glcb.bandit.state import BanditState
from glcb.policies.base import Policy

_NO_TIME = -math.inf
"""In a log no time passes: it says itself when it was over for a decision."""


class Met(NamedTuple):
    """Who deals with a context, and how it reads."""

    encoder: Encoder
    policy: Policy
    reading: Reading


class BanditSteps(BanditState):
    """The steps that a bandit is led through, by whoever uses it or by a log."""

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(parameters)
        self._log: LogFile | None = None

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""
        return self._arms

    # ---- logs -----------------------------------------------------------------------------------

    def log_to(self, path: str | PathLike[str] | None) -> None:
        """Write every decision and every reward to ``path`` from now on, or no longer with None.

        A line of JSON each, appended to what is there; :meth:`learn_from` reads them. A line is with the
        system before the step is taken, so it outlives the process, if not the machine. Where it cannot be
        written, ``LogError`` is raised, the log stays as it was, and so does the bandit: neither was there a
        decision, nor a reward. ``log_to(None)`` goes on without a log. That arms come or go is not in it, and
        saved or copied bandits write none.

        Should Ctrl-C interrupt a decision or a reward right between its line and its effect, the log is ahead
        of the bandit: then go on with one that has read it.
        """
        with self._lock:
            if path is not None and self._log is not None and self._log.is_at(path):
                return
            before, self._log = self._log, None if path is None else LogFile(path)
            if before is not None:
                before.close()

    def learn_from(
        self,
        log: str | PathLike[str],
        *,
        format: str | None = None,  # noqa: A002 (nobody needs the built-in here)
        context: str = "context",
        arm: str = "arm",
        reward: str = "reward",
        propensity: str = "propensity",
        ignore: Collection[str] = (),
        progress: Progress | None = None,
    ) -> LogReport:
        """Learn from a log, as if the bandit had made its decisions itself; no random number is drawn.

        ``log`` is a file of JSON lines, a CSV or a Parquet file, by its ending or by ``format`` ("jsonl",
        "csv", "parquet"). It holds what :meth:`log_to` wrote, or one row per decision with its ``arm`` and
        its ``reward``: the arguments name the columns. The context is a JSON object in a column of its own;
        if there is no such column, all others are features but those to ``ignore``. The ``propensity`` may be
        missing. In a CSV file what looks like a number is one, and an empty cell is missing.

        Rows that cannot be used are counted by reason, and do not stop the rest. The log is read row by row,
        and ``progress`` is called every now and then with what the result would be so far. A log that breaks
        off raises ``LogError``; what came before is learned, and its ``report`` tells how much that was.

        Decisions that had no reward in the log wait for it here, as all others do: under the same id if this
        bandit knew as much as the one that wrote the log when it began. So, after a crash, :meth:`load` and
        the log that was begun at the time of :meth:`save` bring back everything.
        """
        layout = Layout(context, arm, reward, propensity, tuple(ignore))
        with self._lock:
            if self._log is not None and self._log.is_at(log):
                raise InvalidInput(
                    f"{log} is being written by this bandit: stop that first, with log_to(None)"
                )
            learner = Learner(self, layout, self._parameters.max_pending)
        return learner.learn(Path(log), format, progress)

    # ---- steps ----------------------------------------------------------------------------------

    def _met(self, context: Any) -> Met:
        """Meet a context, even the first of all. Changes nothing."""
        parameters = self._parameters
        encoder = self._encoder or Encoder(parameters.declared, context, parameters.spare_slots)
        reading = encoder.read(context)
        return Met(encoder, self._policy or parameters.make_policy(self._arms, encoder.width), reading)

    def _issue(self, met: Met, context: Any, arm: Arm, propensity: float, now: float) -> str:
        """Let a decision wait for its reward; room for it has been made. Return its id."""
        name = self._waiting.next_id(met.reading.x)
        if self._log is not None:
            self._log.write(events.decision(name, self._stamp(now), arm, propensity, context))
        self._accept(met)
        met.policy.count_decision(met.reading.x, arm)
        self._waiting.issue(Waiting(met.reading.x, arm, propensity, now))
        return name

    def _drawn(self, policy: Policy) -> tuple[Any, Any] | None:
        """Return what the next random numbers depend on, if a decision can fail after they are drawn."""
        if self._log is None:
            return None
        return self._rng.bit_generator.state, policy._rng.bit_generator.state

    def _draw_again(self, policy: Policy, before: tuple[Any, Any] | None) -> None:
        """Let the same numbers be drawn again, as no decision came of them."""
        if before is not None:
            self._rng.bit_generator.state, policy._rng.bit_generator.state = before

    def _accept(self, met: Met) -> None:
        met.encoder.accept(met.reading)
        self._encoder, self._policy = met.encoder, met.policy

    def _take_reward(self, name: str, value: float, key: str | int | None, now: float, final: bool) -> bool:
        """Learn a reward that is final, or put it to the others; return False if the same one came before."""
        taken, number = _validation.reward(value, self._parameters.rewards), key_number(key)
        decision = self._waiting.expecting(name, number, now)
        if decision is None:
            return False
        self._settle_due(now)
        if final:
            self._ensure_capacity()
        if self._log is not None:
            self._log.write(events.reward(name, self._stamp(now), taken, key, final))
        if final:
            self._learn(decision, taken)
        self._waiting.take(decision, taken, number, final)
        if final:
            self._tell(decision, taken)
        return True

    def _settle_due(self, now: float, coming: int = 0) -> None:
        """Learn from decisions whose time is over, and from those that must make way for new ones."""
        for decision, outcome in self._waiting.due(now, coming):
            self._settle(decision, outcome, now)

    def _settle(self, decision: Waiting, outcome: float | None, now: float) -> None:
        if outcome is not None:
            self._ensure_capacity()
            if self._log is not None:
                self._log.write(events.outcome(decision.name, self._stamp(now), outcome))
            self._learn(decision, outcome)
        self._waiting.close(decision)
        if outcome is not None:
            self._tell(decision, outcome)

    def _ensure_capacity(self) -> None:
        assert self._policy is not None  # somebody has decided
        self._policy.ensure_capacity()

    def _learn(self, waiting: Waiting, value: float) -> None:
        assert self._policy is not None  # somebody has decided
        self._policy.learn(waiting.x, waiting.arm, value, counted=True)

    def _tell(self, waiting: Waiting, value: float) -> None:
        """Tell the watcher, as the last act of a step: should it fail, the reward is not learned again."""
        if self._watcher is not None:
            self._watcher(waiting.name, waiting.arm, value)

    def _now(self) -> float:
        """Return the time, if it matters to anybody."""
        late, clock = self._parameters.late, self._parameters.clock
        return 0.0 if late.reward_timeout is None else read_clock(clock)

    def _stamp(self, now: float) -> float:
        """Return the time that stands in the log."""
        known = self._parameters.late.reward_timeout is not None and math.isfinite(now)
        return now if known else read_clock(self._parameters.clock)

    # ---- steps that a log tells of --------------------------------------------------------------

    def _replay_row(self, context: Any, arm: Arm, reward: float, propensity: float) -> None:
        """Learn from a decision that has its reward, and need not wait for it."""
        with self._lock:
            taken = _validation.reward(reward, self._parameters.rewards)
            _validation.arm(arm, self._index)
            met = self._met(context)
            met.policy.ensure_capacity()
            name = self._waiting.next_id(met.reading.x)
            if self._log is not None:
                time = self._stamp(_NO_TIME)
                self._log.write(
                    events.decision(name, time, arm, propensity, context),
                    events.reward(name, time, taken, None, True),
                )
            self._accept(met)
            met.policy.count_decision(met.reading.x, arm)
            decision = Waiting(met.reading.x, arm, propensity, name=name)
            self._learn(decision, taken)
            self._waiting.pass_through()
            self._tell(decision, taken)

    def _replay_decision(self, context: Any, arm: Arm, propensity: float, time: float) -> str:
        with self._lock:
            _validation.arm(arm, self._index)
            met = self._met(context)
            self._settle_due(_NO_TIME, coming=1)
            met.policy.ensure_capacity()
            since = 0.0 if self._parameters.late.reward_timeout is None else time
            return self._issue(met, context, arm, propensity, since)

    def _replay_reward(self, name: str, value: float, key: str | int | None, final: bool) -> bool:
        with self._lock:
            return self._take_reward(name, value, key, _NO_TIME, final)

    def _replay_outcome(self, name: str, value: float) -> None:
        with self._lock:
            taken = _validation.reward(value, self._parameters.rewards)
            self._settle(self._waiting.find(name), taken, _NO_TIME)
