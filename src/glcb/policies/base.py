"""The protocol that every policy follows.

``decide`` chooses an arm for a context; ``learn`` updates the policy with the reward of one arm.
:class:`Policy` implements what all policies share: validation, tie breaking, the random generator, the
counters, locking, snapshots and files. A subclass implements ``_estimate`` and ``_learn``, and overrides
other hooks as needed.

A decision and its reward are two events when rewards are delayed or lost: ``count_decision`` records the
decision, and ``learn(..., counted=True)`` its reward. Exploration depends on the decisions: an arm whose
rewards are lost would otherwise look unexplored forever. Learning rates depend on the rewards.
"""

import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from os import PathLike
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from glcb import _forgetting, _model_file, _validation
from glcb._arrays import Arrays, Float32, Float64, Int64, copy_into, take_rows
from glcb._errors import InvalidSettings, MissingExtra, NotSupported, install_command
from glcb._model_file import Snapshot
from glcb._types import MAX_FEATURES, Arm, ExplorationMode, Rewards
from glcb.explain import Explanation
from glcb.explore import best_arm
from glcb.explore.choice import ChoiceRule, distribution, draw
from glcb.policies.decision import Choice, Decision, Estimates


class Policy(ABC):
    """A contextual bandit that learns online, one reward at a time. Safe to use from many threads.

    Parameters
    ----------
    arms
        The number of arms, or their names. If it is a number, the arms are named 0, 1, 2, …
    features
        The length of a context. Every feature is a number within [0, 1].
    rewards
        ``"binary"`` for rewards of 0 or 1, or the range ``(low, high)`` of the rewards.
    seed
        Seed of all random numbers: the same seed and the same inputs give the same decisions.
    """

    stores_data: ClassVar[bool] = False
    """Whether the policy keeps all rewards, so that its size grows with the number of updates."""
    requires: ClassVar[tuple[str, ...]] = ()
    """Optional packages that must be installed to create the policy."""
    extra: ClassVar[str | None] = None
    """The extra of glcb that installs them."""
    arms_are_independent: ClassVar[bool] = True
    """Whether a reward of one arm leaves the values of the other arms unchanged."""
    arms_can_change: ClassVar[bool] = False
    """Whether :meth:`add_arm` and :meth:`remove_arm` are supported."""
    can_forget: ClassVar[bool] = False
    """Whether the policy has a ``half_life`` argument."""
    half_life: int | None = None
    """Number of decisions after which all evidence counts half as much; None means never."""
    is_randomized: ClassVar[bool] = False
    """Whether the bonuses are random draws. The estimates in a decision come from its own draw."""

    def __init__(
        self, arms: int | Sequence[Arm], features: int, *, rewards: Rewards = "binary", seed: int = 0
    ) -> None:
        if missing := " and ".join(self.missing_packages()):
            raise MissingExtra(f"{type(self).__name__} needs {missing}: {install_command(str(self.extra))}")
        self.arms = _validation.arms(arms)
        self.features = _validation.integer("features", features, 1, MAX_FEATURES)
        self.rewards = _validation.rewards(rewards)
        self.seed = _validation.integer("seed", seed, 0, 2**63 - 1)
        self._index = {arm: index for index, arm in enumerate(self.arms)}
        self._rng = np.random.default_rng(self.seed)
        self._reward_counts = np.zeros(len(self.arms), np.int64)
        self._decision_counts = np.zeros(len(self.arms), np.int64)
        self._updates = 0
        self._decisions = 0
        self._lock = threading.RLock()

    @classmethod
    def missing_packages(cls) -> list[str]:
        """Return the names of the packages that the policy requires and that are not installed."""
        return [package for package in cls.requires if find_spec(package) is None]

    # ---- hooks for subclasses: called with the lock held and with validated arguments ---------------

    @abstractmethod
    def _estimate(self, x: Float32) -> Estimates:
        """Return value, bonus and pseudocount of every arm in context ``x``."""

    @abstractmethod
    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        """Update the model with the reward of the arm at index ``arm``."""

    def _estimate_many(self, contexts: Float32) -> Iterable[Estimates]:
        """Estimate each of many contexts. Override this if there is a faster way than one at a time."""
        return map(self._estimate, contexts)

    def _count_decision(self, x: Float32, arm: int) -> None:  # noqa: B027
        """Record a decision, in addition to the counters of the base class."""

    def _count_and_learn(self, x: Float32, arm: int, reward: float) -> None:
        """Record a decision and learn its reward. Override this if there is a faster way than two steps."""
        self._learn(x, arm, reward)
        self._count_decision(x, arm)

    def _ensure_capacity(self) -> None:  # noqa: B027
        """Allocate the memory that the next step can need, so that allocation fails here or nowhere."""

    def _contributions(self, x: Float32, baseline: Float32) -> tuple[Float64, Float64]:
        """Return each arm's value at the baseline and the contributions of all features: [arms, features]."""
        raise NotSupported(
            f"{type(self).__name__} cannot explain its values: use a policy that can, such as glcb or linucb"
        )

    def _reordered(self, sources: Int64) -> dict[str, Any]:
        """Return new values for all attributes that have one entry per arm.

        Entry j is a copy of the current entry ``sources[j]``, or a new arm's entry if ``sources[j]`` is −1.
        Change nothing: the base class assigns all attributes in one step.
        """
        raise NotImplementedError

    def _forget(self, arms: slice | None = None) -> None:
        """Halve the weight of all evidence, or of the evidence for some arms. Counters are unchanged."""
        raise NotImplementedError

    def _arguments(self) -> dict[str, Any]:
        """Return the constructor arguments with the current arms: the attributes with their names."""
        names = inspect.signature(type(self)).parameters
        stored = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return {**stored, "arms": list(self.arms)}

    def _snapshot(self) -> Arrays:
        """Return the arrays that hold everything learned, in addition to the counters of the base class."""
        return {}

    def _restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise ValueError or KeyError if it is invalid.

        Override this if the size of an array depends on what was learned.
        """
        copy_into(self._snapshot(), arrays)

    # ---- decisions ----------------------------------------------------------------------------------

    def decide(self, x: ArrayLike, *, eligible: Iterable[Arm] | None = None) -> Decision:
        """Choose the arm with the largest value plus bonus. Learns nothing.

        Parameters
        ----------
        x
            The context: one number within [0, 1] per feature.
        eligible
            The arms to choose from; all arms by default.

        Returns
        -------
        Decision
            The chosen arm, and the estimates of all arms.

        Raises
        ------
        InvalidContext
            If ``x`` has the wrong length or a value outside [0, 1].
        UnknownArm
            If ``eligible`` is empty or names an arm that does not exist.
        """
        context = _validation.context(x, self.features)
        with self._lock:
            allowed = None if eligible is None else _validation.eligible(eligible, self._index)
            return self._decision(self._estimate(context), allowed)

    def decide_many(self, contexts: ArrayLike, *, eligible: Iterable[Arm] | None = None) -> list[Decision]:
        """Choose an arm for each row of ``contexts``, as :meth:`decide` would, but faster.

        Parameters
        ----------
        contexts
            One context per row.
        eligible
            The arms to choose from, for all contexts; all arms by default.

        Returns
        -------
        list of Decision
            One decision per context, in the same order.

        Raises
        ------
        InvalidContext, UnknownArm
            As for :meth:`decide`.
        """
        rows = _validation.contexts(contexts, self.features)
        with self._lock:
            allowed = None if eligible is None else _validation.eligible(eligible, self._index)
            return [self._decision(estimates, allowed) for estimates in self._estimate_many(rows)]

    def _decision(self, estimates: Estimates, allowed: list[int] | None) -> Decision:
        best = best_arm(estimates.values, estimates.bonuses, allowed, self._rng)
        return Decision(self.arms[best], self.arms, estimates)

    def estimate(self, x: ArrayLike, *, checked: bool = False) -> Estimates:
        """Return value, bonus and pseudocount of every arm in context ``x``. Learns nothing.

        Parameters
        ----------
        x
            The context: one number within [0, 1] per feature.
        checked
            Whether ``x`` is known to be a valid context: a contiguous float32 array.

        Returns
        -------
        Estimates
            The estimates of all arms.

        Raises
        ------
        InvalidContext
            If ``x`` has the wrong length or a value outside [0, 1].
        """
        context = cast("Float32", x) if checked else _validation.context(x, self.features)
        with self._lock:
            return self._estimate(context)

    def choose(
        self, x: Float32, exploration: float, mode: ExplorationMode, point: float, count: bool
    ) -> Choice:
        """Choose an arm at random for a valid context; with ``count``, record that as a decision.

        Override this if there is a faster way than several steps. ``exploration`` and ``mode`` are as in
        :class:`glcb.explore.choice.ChoiceRule`, and ``point`` is the random number that chooses the arm.
        """
        with self._lock:
            values, bonuses, _ = estimates = self._estimate(x)
            shares = distribution(values + bonuses, bonuses, ChoiceRule(exploration, mode))
            choice = Choice(estimates, shares, draw(shares, point))
            if count:
                self.count_decision(x, self.arms[choice.arm], checked=True)
            return choice

    def explain(self, x: ArrayLike, *, baseline: ArrayLike | None = None) -> Explanation:
        """Return the contribution of each feature of ``x`` to the value of every arm. Changes nothing.

        Parameters
        ----------
        x
            The context.
        baseline
            The context to compare with, by default ½ for every feature. A gated linear network evaluates the
            baseline with the gates of ``x``; at ½ all its inputs except the bias are 0.

        Returns
        -------
        Explanation
            The contributions and the estimates of all arms.

        Raises
        ------
        InvalidContext
            If ``x`` or ``baseline`` has the wrong length or a value outside [0, 1].
        NotSupported
            If the policy cannot explain its values.
        """
        context = _validation.context(x, self.features)
        center: Float32 = np.full(self.features, 0.5, np.float32)
        origin = center if baseline is None else _validation.context(baseline, self.features)
        with self._lock:
            bases, contributions = self._contributions(context, origin)
            rng_state = self.rng_state
            estimates = self._estimate(context)
            self.rng_state = rng_state  # an explanation does not change the next decision
            return Explanation(
                self.arms,
                tuple(map(str, range(self.features))),
                tuple(f"{value:.4g}" for value in context.tolist()),
                bases,
                contributions,
                estimates.values,
                estimates.bonuses,
                estimates.pseudocounts,
                self.is_randomized,
            )

    # ---- learning -----------------------------------------------------------------------------------

    @property
    def reward_counts(self) -> dict[Arm, int]:
        """Number of rewards learned, by arm."""
        with self._lock:
            return dict(zip(self.arms, self._reward_counts.tolist(), strict=True))

    @property
    def updates(self) -> int:
        """Number of rewards learned."""
        return self._updates

    def learn(
        self, x: ArrayLike, arm: Arm, reward: float, *, counted: bool = False, checked: bool = False
    ) -> None:
        """Learn the reward of one decision. An interrupt (Ctrl-C) can leave it incomplete: load a copy.

        Parameters
        ----------
        x
            The context of the decision.
        arm
            The arm that was chosen.
        reward
            Its reward.
        counted
            Whether :meth:`count_decision` has already recorded the decision.
        checked
            Whether ``x`` and ``reward`` are known to be valid: a contiguous float32 array and a float.

        Raises
        ------
        InvalidContext, UnknownArm, InvalidReward
            If an argument is invalid; nothing is learned.
        """
        context = cast("Float32", x) if checked else _validation.context(x, self.features)
        value = reward if checked else _validation.reward(reward, self.rewards)
        with self._lock:
            index = _validation.arm(arm, self._index)
            self._update(context, index, value, counted)

    def learn_many(self, contexts: ArrayLike, arms: Iterable[Arm], rewards: Iterable[float]) -> None:
        """Learn many rewards in order, as :meth:`learn` would, after validating all of them.

        Parameters
        ----------
        contexts, arms, rewards
            The context, the chosen arm and the reward of each decision.

        Raises
        ------
        InvalidInput, InvalidContext, UnknownArm, InvalidReward
            If an argument is invalid; nothing is learned.
        """
        rows = _validation.contexts(contexts, self.features)
        names = _validation.list_of_length("arms", arms, len(rows))
        numbers = _validation.list_of_length("rewards", rewards, len(rows))
        values = [_validation.reward(reward, self.rewards) for reward in numbers]
        with self._lock:
            indices = [_validation.arm(arm, self._index) for arm in names]
            for x, index, value in zip(rows, indices, values, strict=True):
                self._update(x, index, value)

    def count_decision(self, x: ArrayLike, arm: Arm, *, checked: bool = False) -> None:
        """Record that ``arm`` was chosen in context ``x``. Its reward can be learned later, or never.

        Parameters
        ----------
        x
            The context of the decision.
        arm
            The chosen arm.
        checked
            Whether ``x`` is known to be a valid context: a contiguous float32 array.

        Raises
        ------
        InvalidContext, UnknownArm
            If an argument is invalid; nothing is recorded.
        """
        context = cast("Float32", x) if checked else _validation.context(x, self.features)
        with self._lock:
            index = _validation.arm(arm, self._index)
            self._ensure_capacity()
            self._count_decision(context, index)
            self._advance(index)

    def ensure_capacity(self) -> None:
        """Allocate the memory for one more step, so that :meth:`count_decision` cannot run out of memory."""
        with self._lock:
            self._ensure_capacity()

    def _update(self, x: Float32, arm: int, reward: float, counted: bool = False) -> None:
        self._ensure_capacity()
        if counted:
            self._learn(x, arm, reward)
        else:
            self._count_and_learn(x, arm, reward)
            self._advance(arm)
        self._reward_counts[arm] += 1
        self._updates += 1

    def _advance(self, arm: int) -> None:
        """Count one decision; after every ``half_life`` decisions, forget."""
        self._decision_counts[arm] += 1
        self._decisions += 1
        if self.half_life is not None and self._decisions % self.half_life == 0:
            self._forget()

    # ---- arms ---------------------------------------------------------------------------------------

    def add_arm(self, name: Arm, *, like: Arm | None = None) -> None:
        """Add an arm. Other arms keep everything learned about them.

        Parameters
        ----------
        name
            The name of the new arm.
        like
            An arm to copy. The new arm starts with its values, but with at most 64 decisions of evidence, so
            that it is explored. By default the arm starts untrained.

        Raises
        ------
        InvalidSettings
            If ``name`` is invalid or in use.
        UnknownArm
            If there is no arm ``like``.
        NotSupported
            If the arms of the policy cannot change.
        """
        with self._lock:
            new = _validation.new_arm(name, self._index)
            source = -1 if like is None else _validation.arm(like, self._index)
            decisions = 0 if like is None else int(self._decision_counts[source])
            halvings = _forgetting.halvings_of_copy(decisions, self.half_life)
            self._replace_arms((*self.arms, new), [*range(len(self.arms)), source], halvings)

    def remove_arm(self, name: Arm) -> None:
        """Remove an arm. Other arms keep everything learned about them.

        Parameters
        ----------
        name
            The name of the arm.

        Raises
        ------
        InvalidSettings
            If it is the only arm.
        UnknownArm
            If there is no such arm.
        NotSupported
            If the arms of the policy cannot change.
        """
        with self._lock:
            index = _validation.arm(name, self._index)
            if len(self.arms) == 1:
                raise InvalidSettings(f"{name!r} is the only arm: add another one before removing it")
            kept = [other for other in range(len(self.arms)) if other != index]
            self._replace_arms(tuple(self.arms[other] for other in kept), kept)

    def _replace_arms(self, arms: tuple[Arm, ...], sources: list[int], halvings: int = 0) -> None:
        if not self.arms_can_change:
            name = type(self).__name__
            raise NotSupported(f"{name} cannot add or remove arms: create a new policy with all arms")
        order = np.array(sources, np.int64)
        changed = {
            **self._reordered(order),
            "arms": arms,
            "_index": {arm: index for index, arm in enumerate(arms)},
            "_reward_counts": take_rows(self._reward_counts, order, 0),
            "_decision_counts": take_rows(self._decision_counts, order, 0),
        }
        new = object.__new__(type(self))
        vars(new).update(vars(self) | changed)
        new._reward_counts[-1] >>= halvings
        new._decision_counts[-1] >>= halvings
        for _ in range(halvings if self.can_forget else 0):
            new._forget(slice(len(arms) - 1, len(arms)))
        vars(self).update(vars(new))

    # ---- snapshots and files ------------------------------------------------------------------------

    @property
    def rng_state(self) -> Any:
        """The state of the random generator. Set it to a saved state to repeat later draws."""
        with self._lock:
            return self._rng.bit_generator.state

    @rng_state.setter
    def rng_state(self, state: Any) -> None:
        with self._lock:
            self._rng.bit_generator.state = state

    @contextmanager
    def drawing_from(self, rng: np.random.Generator) -> Iterator[None]:
        """Use another random generator in a block. The policy's own generator does not change."""
        with self._lock:
            own, self._rng = self._rng, rng
            try:
                yield
            finally:
                self._rng = own

    def snapshot(self, *, copy: bool = True) -> Snapshot:
        """Return everything that determines later decisions.

        Parameters
        ----------
        copy
            Whether to copy the arrays. Otherwise, they are only valid until the policy learns again.

        Returns
        -------
        Snapshot
            The arguments, the state of the random generator, and everything learned.
        """
        with self._lock:
            arrays = {
                "reward_counts": self._reward_counts,
                "updates": np.array([self._updates]),
                "decision_counts": self._decision_counts,
                "decisions": np.array([self._decisions]),
                **self._snapshot(),
            }
            if copy:
                arrays = {name: array.copy() for name, array in arrays.items()}
            return Snapshot(type(self).__name__, self._arguments(), self.rng_state, arrays)

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> Self:
        """Return a policy restored from a snapshot. It continues exactly as the original would have.

        Parameters
        ----------
        snapshot
            The result of :meth:`snapshot`.

        Returns
        -------
        Policy
            The restored policy.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is not a snapshot of this class.
        """
        policy = cls(**snapshot.arguments)
        updates, decisions = np.zeros((2, 1), np.int64)
        counts = {"reward_counts": policy._reward_counts, "decision_counts": policy._decision_counts}
        copy_into({**counts, "updates": updates, "decisions": decisions}, snapshot.arrays)
        policy._updates, policy._decisions = int(updates[0]), int(decisions[0])
        policy._restore(snapshot.arrays)
        policy.rng_state = snapshot.generator
        return policy

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state of a snapshot, the result of :meth:`snapshot`.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is not a snapshot of this class; nothing changes.
        """
        restored = vars(self.from_snapshot(snapshot))
        with self._lock:
            vars(self).update({**restored, "_lock": self._lock})

    def __getstate__(self) -> Snapshot:
        return self.snapshot()

    def __setstate__(self, snapshot: Snapshot) -> None:
        vars(self).update(vars(self.from_snapshot(snapshot)))

    def save(self, path: str | PathLike[str]) -> None:
        """Save the policy to a file. The file is replaced atomically.

        Parameters
        ----------
        path
            The file to write.

        Raises
        ------
        ModelFileError
            If the file cannot be written.
        """
        _model_file.write(path, self.snapshot())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Load a policy. It continues exactly as the saved one would have.

        Parameters
        ----------
        path
            A file written by :meth:`save`.

        Returns
        -------
        Policy
            The loaded policy.

        Raises
        ------
        ModelFileError
            If the file cannot be read, is damaged, or holds another kind of policy.
        """
        return _model_file.load(path, cls.__name__, cls.from_snapshot)

    def __repr__(self) -> str:
        arguments = self._arguments()
        arguments["arms"] = list(self.arms) if len(self.arms) <= 4 else [*self.arms[:3], "…"]
        shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        return f"{type(self).__name__}({shown}, updates={self.updates})"
