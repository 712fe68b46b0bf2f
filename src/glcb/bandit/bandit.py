"""The bandit that an application meets: contexts as they come, named arms, exact propensities."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from glcb import _validation
from glcb._errors import InvalidSettings
from glcb._types import Arm, Rewards
from glcb.bandit import display
from glcb.bandit.config import Parameters
from glcb.bandit.decision import BanditDecision
from glcb.bandit.encoding.schema import Schema
from glcb.bandit.reward_rules import Clock, RewardAggregation
from glcb.bandit.state import Watcher
from glcb.bandit.steps import BanditSteps
from glcb.explain import Explanation
from glcb.explore.probabilities import ExplorationMode, draw, probabilities

_WHILE_RUNNING = {"exploration", "exploration_mode", "clock"}
"""Parameters that may change after the first decision."""


class Bandit(BanditSteps):
    """Decides between named arms, for contexts of any kind, and learns from the rewards.

    >>> bandit = Bandit(arms=["sports", "news", "games"])
    >>> decision = bandit.decide({"country": "FR", "age": 31, "hour": 14})
    >>> decision.arm in bandit.arms, sum(decision.probabilities.values())
    (True, 1.0)
    >>> bandit.reward(decision.id, 1.0)
    True

    ``policy`` is the name of any policy of the registry and ``policy_settings`` are its own settings; ``rewards`` is
    ``"binary"`` or (lowest, highest). With probability ``exploration`` another arm is played than the
    policy's rule says, whichever, with ``exploration_mode="uniform"``, or rather one that is close to it, with
    ``"gap"``; with 0 the rule alone decides. ``schema`` declares features, ``spare_slots`` is the number of slots
    kept free for what is seen later, ``max_pending`` how many decisions may wait for a reward.

    A decision waits ``reward_timeout`` seconds for its reward, or for ever. If none has come by then, it expires:
    ``default_reward`` is learned, or nothing. ``reward_aggregation`` says what counts if several come. The "first" is
    learned at once; of the "last", the "max" and the "sum" (cut off at the ends of the range) nobody knows
    before the time is over, so they are learned then, or when others need the room. Time comes from
    ``clock``, in seconds, and is looked at with every decision and reward, and by :meth:`settle`.

    Where the world changes, ``half_life`` says after how many decisions all evidence so far counts half; without
    it, everything counts for ever.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        *,
        policy: str = "glcb",
        rewards: Rewards = "binary",
        exploration: float = 0.05,
        exploration_mode: ExplorationMode = "gap",
        schema: Mapping[str, Any] | None = None,
        spare_slots: int | None = None,
        max_pending: int = 10_000,
        reward_timeout: float | None = None,
        default_reward: float | None = None,
        reward_aggregation: RewardAggregation = "first",
        clock: Clock = time.time,
        half_life: int | None = None,
        seed: int = 0,
        policy_settings: Mapping[str, Any] | None = None,
    ) -> None:
        parameters = Parameters(
            {
                "arms": arms,
                "policy": policy,
                "rewards": rewards,
                "exploration": exploration,
                "exploration_mode": exploration_mode,
                "schema": schema,
                "spare_slots": spare_slots,
                "max_pending": max_pending,
                "reward_timeout": reward_timeout,
                "default_reward": default_reward,
                "reward_aggregation": reward_aggregation,
                "clock": clock,
                "half_life": half_life,
                "seed": seed,
                "policy_settings": policy_settings,
            }
        )
        super().__init__(parameters)

    # ---- deciding and learning ------------------------------------------------------------------

    def decide(
        self, context: Any, *, eligible: Iterable[Arm] | None = None, uniform: bool = False
    ) -> BanditDecision:
        """Choose an arm for a context: a dict, a row of a data frame, or a list or array of values.

        Only ``eligible`` arms are considered, if given. The decision waits for its reward from now on. With
        ``uniform`` all of them are equally likely, whatever is known: a yardstick for what the rule brings.
        """
        with self._lock:
            allowed = None if eligible is None else _validation.eligible(eligible, self._index)
            parameters = self._parameters
            met = self._met(context)
            now = self._now()
            self._settle_due(now, coming=1)
            before = self._drawn(met.policy)
            try:
                estimates = met.policy.estimate(met.reading.x)
                scores = np.zeros(len(self._arms)) if uniform else estimates.values + estimates.bonuses
                chances = probabilities(scores, allowed, parameters.exploration, parameters.exploration_mode)
                met.policy.ensure_capacity()
                played = draw(chances, self._rng)
                arm, propensity = self._arms[played], float(chances[played])
                name = self._issue(met, context, arm, propensity, now)
            except BaseException:  # such as a log that cannot be written
                self._draw_again(met.policy, before)
                raise
            return BanditDecision(
                arm, self._arms, estimates, name, propensity, chances, met.policy.is_randomized
            )

    def reward(self, decision: str, value: float, *, idempotency_key: str | int | None = None) -> bool:
        """Take the reward ``value`` of the decision with this id; return whether it was taken.

        Who may send a reward twice gives it an ``idempotency_key``: of several rewards of one decision with the same key,
        the first is taken and the others are ignored.
        """
        with self._lock:
            first = self._parameters.late.reward_aggregation == "first"
            return self._take_reward(decision, value, idempotency_key, self._now(), final=first)

    def settle(self) -> None:
        """Learn now what is to be learned from decisions whose time is over, not with the next decision."""
        with self._lock:
            self._settle_due(self._now())

    def on_reward(self, callback: Watcher | None) -> None:
        """Have ``callback(id, arm, value)`` called whenever a reward is learned, however late; or no longer."""
        with self._lock:
            self._watcher = callback

    def is_pending(self, decision: str) -> bool:
        """Return whether the decision with this id still waits for a reward."""
        with self._lock:
            return self._waiting.waits(decision, self._now())

    def explain(self, context: Any) -> Explanation:
        """Return what each feature of a context contributes to the value of every arm, and the evidence.

        Nothing is learned, counted or drawn. Values are compared with those of a context in which every number
        is in the middle of its scale, and of booleans and categories nothing is known.
        """
        with self._lock:
            met = self._met(context)
            origins = met.encoder.origins(context, met.reading)
            found = met.policy.explain(met.reading.x, baseline=origins.baseline)
            return found.gathered(origins.owners, tuple(origins.given), tuple(origins.given.values()))

    # ---- arms -----------------------------------------------------------------------------------

    def add_arm(self, name: Arm, *, like: Arm | None = None) -> None:
        """Add an arm: a fresh one, or one that starts with all that the arm ``like`` has learned."""
        with self._lock:
            new = _validation.new_arm(name, self._index)
            if like is not None:
                _validation.arm(like, self._index)
            if self._policy is not None:
                self._policy.add_arm(new, like=like)
            self._take_arms((*self._arms, new))

    def remove_arm(self, name: Arm) -> None:
        """Remove an arm with all it has learned; its decisions no longer wait for a reward."""
        with self._lock:
            index = _validation.arm(name, self._index)
            if len(self._arms) == 1:
                raise InvalidSettings(f"{name!r} is the only arm: add another one before removing it")
            if self._policy is not None:
                self._policy.remove_arm(name)
            self._waiting.remove_arm(self._arms[index])
            self._take_arms((*self._arms[:index], *self._arms[index + 1 :]))

    def _take_arms(self, arms: tuple[Arm, ...]) -> None:
        self._arms = arms
        self._index = {arm: index for index, arm in enumerate(arms)}

    # ---- looking at it --------------------------------------------------------------------------

    @property
    def schema(self) -> Schema | None:
        """What is known of the contexts and what could not be used; nothing before the first decision."""
        with self._lock:
            return None if self._encoder is None else self._encoder.schema

    @property
    def counts(self) -> dict[str, int]:
        """Decisions issued so far, of these rewarded, expired (no reward will come) and waiting."""
        with self._lock:
            return self._waiting.counts

    @property
    def reward_counts(self) -> dict[Arm, int]:
        """Number of rewards learned so far, for each arm."""
        with self._lock:
            return dict.fromkeys(self._arms, 0) if self._policy is None else self._policy.reward_counts

    def __repr__(self) -> str:
        return display.line(self._parameters.as_json(self._arms), self.counts)

    def _repr_html_(self) -> str:
        return display.page(
            self._parameters.as_json(self._arms), self.counts, self.reward_counts, self.schema
        )

    # ---- the habits of scikit-learn -------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments that make an untrained bandit like this one."""
        with self._lock:
            given = dict(self._parameters.given)
            return given if self._arms == self._parameters.arms else {**given, "arms": self._arms}

    def set_params(self, **changes: Any) -> Self:
        """Change arguments; after the first decision only ``exploration``, ``exploration_mode`` and ``clock`` can."""
        with self._lock:
            given = self.get_params()
            for name in changes:
                if name not in given:
                    raise InvalidSettings(f"Bandit has no parameter {name!r}; it has {', '.join(given)}")
                if self._encoder is not None and name not in _WHILE_RUNNING:
                    raise InvalidSettings(
                        f"{name} cannot change after the first decision: make a new bandit with "
                        f"Bandit(**{{**bandit.get_params(), {name!r}: …}})"
                    )
            if self._encoder is None:
                fresh = type(self)(**{**given, **changes})
                kept = {"_lock": self._lock, "_watcher": self._watcher, "_log": self._log}
                self.__dict__.update(vars(fresh) | kept)
            else:
                self._parameters = Parameters({**given, **changes})
        return self
