"""The bandit that an application meets: contexts as they come, named arms, exact propensities."""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np

from glcb import _checks, _modelfile
from glcb._errors import InvalidSettings, ModelFileError
from glcb._modelfile import Snapshot
from glcb._types import Arm, Rewards
from glcb.bandit import display
from glcb.bandit.decision import BanditDecision
from glcb.bandit.encoder import Encoder
from glcb.bandit.late import Clock, Combine, key_number, read_clock
from glcb.bandit.parameters import Parameters
from glcb.bandit.pending import Waiting
from glcb.bandit.reading import Reading
from glcb.bandit.schema import Schema
from glcb.bandit.waiting import WaitingRoom
from glcb.explain import Explanation
from glcb.explore.probabilities import Spread, draw, probabilities
from glcb.policies.base import Policy

_STREAM = 0x62616E64
"""Sets the bandit's random numbers apart from those of its policy, which has the same seed."""
_WHILE_RUNNING = {"exploration", "spread", "clock"}
"""Parameters that may change after the first decision."""


class Bandit:
    """Decides between named arms, for contexts of any kind, and learns from the rewards.

    >>> bandit = Bandit(arms=["sports", "news", "games"])
    >>> decision = bandit.decide({"country": "FR", "age": 31, "hour": 14})
    >>> decision.arm in bandit.arms, sum(decision.probabilities.values())
    (True, 1.0)
    >>> bandit.reward(decision.id, 1.0)

    ``policy`` is the name of any policy of the registry and ``settings`` are its own settings; ``rewards`` is
    ``"binary"`` or (lowest, highest). With probability ``exploration`` another arm is played than the
    policy's rule says, whichever, with ``spread="uniform"``, or rather one that is close to it, with
    ``"gap"``; with 0 the rule alone decides. ``schema`` declares features, ``reserve`` is the number of slots
    kept free for what is seen later, ``most_waiting`` how many decisions may wait for a reward.

    A decision waits ``patience`` seconds for its reward, or for ever. If none has come by then, it expires:
    ``default_reward`` is learnt, or nothing. ``combine`` says what counts if several come. The "first" is
    learnt at once; of the "last", the "max" and the "sum" (cut off at the ends of the range) nobody knows
    before the time is over, so they are learnt then, or when others need the room. Time comes from
    ``clock``, in seconds, and is looked at with every decision and reward, and by :meth:`settle`.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        *,
        policy: str = "glcb",
        rewards: Rewards = "binary",
        exploration: float = 0.05,
        spread: Spread = "gap",
        schema: Mapping[str, Any] | None = None,
        reserve: int | None = None,
        most_waiting: int = 10_000,
        patience: float | None = None,
        default_reward: float | None = None,
        combine: Combine = "first",
        clock: Clock = time.time,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._parameters = Parameters(
            {
                "arms": arms,
                "policy": policy,
                "rewards": rewards,
                "exploration": exploration,
                "spread": spread,
                "schema": schema,
                "reserve": reserve,
                "most_waiting": most_waiting,
                "patience": patience,
                "default_reward": default_reward,
                "combine": combine,
                "clock": clock,
                "seed": seed,
                "settings": settings,
            }
        )
        self._arms = self._parameters.arms
        self._index = {arm: index for index, arm in enumerate(self._arms)}
        self._rng = np.random.default_rng((self._parameters.seed, _STREAM))
        self._encoder: Encoder | None = None
        self._policy: Policy | None = None
        self._waiting = WaitingRoom(self._parameters.most_waiting, self._parameters.late)
        self._lock = threading.RLock()

    # ---- deciding and learning ------------------------------------------------------------------

    def decide(self, context: Any, *, eligible: Iterable[Arm] | None = None) -> BanditDecision:
        """Choose an arm for a context: a dict, a row of a data frame, or a list or array of values.

        Only ``eligible`` arms are considered, if given. The decision waits for its reward from now on.
        """
        with self._lock:
            allowed = None if eligible is None else _checks.eligible(eligible, self._index)
            parameters = self._parameters
            encoder, policy, reading = self._met(context)
            now = self._now()
            self._waiting.settle_due(now, self._learn, coming=1)
            estimates = policy.estimate(reading.x)
            scores = estimates.values + estimates.bonuses
            chances = probabilities(scores, allowed, parameters.exploration, parameters.spread)
            policy.make_room()
            # From here on nothing can go wrong, so that an error leaves everything as it was.
            played = draw(chances, self._rng)
            encoder.accept(reading)
            self._encoder, self._policy = encoder, policy
            arm, propensity = self._arms[played], float(chances[played])
            policy.issue(reading.x, arm)
            name = self._waiting.issue(Waiting(reading.x, arm, propensity, now))
            return BanditDecision(arm, self._arms, estimates, name, propensity, chances, policy.samples)

    def reward(self, decision: str, value: float, *, key: str | int | None = None) -> None:
        """Take the reward ``value`` of the decision with this id.

        Who may send a reward twice gives it a ``key``: of several rewards of one decision with the same key,
        the first is taken and the others are ignored.
        """
        with self._lock:
            taken, number = _checks.reward(value, self._parameters.rewards), key_number(key)
            self._waiting.reward(decision, taken, number, self._now(), self._learn)

    def settle(self) -> None:
        """Learn now what is to be learnt from decisions whose time is over, not with the next decision."""
        with self._lock:
            self._waiting.settle_due(self._now(), self._learn)

    def _learn(self, waiting: Waiting, value: float) -> None:
        assert self._policy is not None  # somebody has decided
        self._policy.learn(waiting.x, waiting.arm, value, issued=True)

    def _now(self) -> float:
        """Return the time, if it matters to anybody."""
        late, clock = self._parameters.late, self._parameters.clock
        return 0.0 if late.patience is None else read_clock(clock)

    def explain(self, context: Any) -> Explanation:
        """Return what each feature of a context contributes to the value of every arm, and the evidence.

        Nothing is learnt, counted or drawn. Values are compared with those of a context in which every number
        is in the middle of its scale, and of booleans and categories nothing is known.
        """
        with self._lock:
            encoder, policy, reading = self._met(context)
            origins = encoder.origins(context, reading)
            found = policy.explain(reading.x, baseline=origins.baseline)
            return found.gathered(origins.owners, tuple(origins.given), tuple(origins.given.values()))

    def _met(self, context: Any) -> tuple[Encoder, Policy, Reading]:
        """Return who deals with a context, even the first of all, and how it reads. Changes nothing."""
        parameters = self._parameters
        encoder = self._encoder or Encoder(parameters.declared, context, parameters.reserve)
        reading = encoder.read(context)
        return encoder, self._policy or parameters.make_policy(self._arms, encoder.width), reading

    # ---- arms -----------------------------------------------------------------------------------

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""
        return self._arms

    def add_arm(self, name: Arm, *, like: Arm | None = None) -> None:
        """Add an arm: a fresh one, or one that starts with all that the arm ``like`` has learnt."""
        with self._lock:
            new = _checks.new_arm(name, self._index)
            if like is not None:
                _checks.arm(like, self._index)
            if self._policy is not None:
                self._policy.add_arm(new, like=like)
            self._take_arms((*self._arms, new))

    def remove_arm(self, name: Arm) -> None:
        """Remove an arm with all it has learnt; its decisions no longer wait for a reward."""
        with self._lock:
            index = _checks.arm(name, self._index)
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
            room = self._waiting
            return {
                "issued": room.issued,
                "rewarded": room.rewarded,
                "expired": room.expired,
                "waiting": len(room),
            }

    @property
    def plays(self) -> dict[Arm, int]:
        """Number of rewards learnt so far, for each arm."""
        with self._lock:
            return dict.fromkeys(self._arms, 0) if self._policy is None else self._policy.plays

    def __repr__(self) -> str:
        return display.line(self._parameters.as_json(self._arms), self.counts)

    def _repr_html_(self) -> str:
        return display.page(self._parameters.as_json(self._arms), self.counts, self.plays, self.schema)

    # ---- the habits of scikit-learn -------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments that make an untrained bandit like this one."""
        with self._lock:
            given = dict(self._parameters.given)
            return given if self._arms == self._parameters.arms else {**given, "arms": self._arms}

    def set_params(self, **changes: Any) -> Self:
        """Change arguments; after the first decision only ``exploration``, ``spread`` and ``clock`` can."""
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
                type(self).__init__(self, **{**given, **changes})
            else:
                self._parameters = Parameters({**given, **changes})
        return self

    # ---- saving, copying, pickling: one snapshot serves all three ------------------------------

    def __getstate__(self) -> Snapshot:
        with self._lock:
            arguments = self._parameters.as_json(self._arms)
            generator = self._rng.bit_generator.state
            if self._policy is None or self._encoder is None:
                return Snapshot("Bandit", arguments, generator, {}, {"running": False})
            policy = self._policy.__getstate__()
            parts = {
                "policy": policy.arrays,
                "encoder": self._encoder.state(),
                "waiting": self._waiting.state(self._index, self._encoder.width),
            }
            about = {
                "running": True,
                "policy": {"arguments": policy.arguments, "generator": policy.generator},
                "encoder": self._encoder.about(),
                "waiting": self._waiting.about(),
            }
            arrays = {
                f"{part}.{name}": array.copy() for part, own in parts.items() for name, array in own.items()
            }
            return Snapshot("Bandit", arguments, generator, arrays, about)

    def __setstate__(self, snapshot: Snapshot) -> None:
        type(self).__init__(self, **snapshot.arguments)
        about = snapshot.about
        if about["running"]:
            parts: dict[str, dict[str, np.ndarray]] = {"policy": {}, "encoder": {}, "waiting": {}}
            for name, array in snapshot.arrays.items():
                part, _, rest = name.partition(".")
                parts[part][rest] = array
            make = self._parameters.entry.make
            self._policy = make.__new__(make)
            self._policy.__setstate__(Snapshot(make.__name__, arrays=parts["policy"], **about["policy"]))
            self._encoder = Encoder.restored(about["encoder"], parts["encoder"])
            width = self._encoder.width
            if self._policy.arms != self._arms or self._policy.features != width:
                raise ValueError("the policy has other arms or features than the bandit")
            self._waiting.restore(about["waiting"], parts["waiting"], self._arms, width)
        self._rng.bit_generator.state = snapshot.generator

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to ``path``. A crash on the way leaves an older file there as it was."""
        _modelfile.write(path, self.__getstate__())

    @classmethod
    def load(cls, path: str | PathLike[str], *, clock: Clock = time.time) -> Self:
        """Return the bandit that :meth:`save` wrote to ``path``; it continues as the original would have.

        A clock cannot be saved: one that is not the system's must be given again.
        """
        snapshot = _modelfile.read(path)
        if snapshot.policy != "Bandit":
            raise ModelFileError(
                f"{path} holds a {snapshot.policy}, not a Bandit: load it with {snapshot.policy}.load"
            )
        bandit = cls.__new__(cls)
        try:
            bandit.__setstate__(snapshot)
        except (KeyError, TypeError, ValueError, OverflowError, MemoryError) as error:
            raise ModelFileError(f"{path} is not a complete Bandit: {error}") from error
        return bandit.set_params(clock=clock)
