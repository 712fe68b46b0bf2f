"""Gated Linear Contextual Bandits (Sezener, Hutter, Budden, Wang, Veness 2020).

A context passes through the gates, which give every unit a signature. The signatures select the weights of
the network bank, which predicts a value per arm, and the visit counts, which give a pseudocount and a bonus
per arm. All of this is compiled; ``kernels.py`` shows the path of one decision. The class owns the parts and
passes them to the kernels.
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import asdict, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glcb import _validation
from glcb._arrays import Arrays, Float32, Float64, Int64, copy_into, take_rows
from glcb._numba.compile import warn_before_compiling
from glcb._numba.packed import PackedArguments
from glcb._types import Arm, ExplorationMode, Rewards, reward_range
from glcb.experts import Expert, Experts
from glcb.explore import VisitCounts
from glcb.gln import (
    Bank,
    Gates,
    GradientDescent,
    Initialization,
    Newton,
    Output,
    empty_context_cache,
)
from glcb.policies.base import Policy
from glcb.policies.decision import Choice, Estimates
from glcb.policies.glcb import kernels
from glcb.policies.glcb.kernels import GLCB_ARRAYS, GLCBArrays, RateArrays
from glcb.policies.glcb.settings import (
    DEFAULT_BINARY,
    DEFAULT_BOUNDED,
    SETTING_NAMES,
    BonusUnit,
    Optimizer,
    Settings,
)
from glcb.policies.registry import register
from glcb.values import Bernoulli, LeafValues, Tree

_MIN_CONTEXTS_FOR_THREADS = 256
"""With fewer contexts, starting threads takes longer than the estimates."""


class RewardDistribution(NamedTuple):
    """The predicted distribution of each arm's reward, one row per arm."""

    outcomes: Float64
    """The possible rewards: 0 and 1, or the reward that each bin represents."""
    probabilities: Float64
    """The probability of each outcome.

    For binary rewards, the weighted sum of the outcomes is the value of the arm. For bounded rewards, it is
    the networks' prediction; the value also contains the predictions of the regressions. A reward between two
    adjacent bins counts partly for each.
    """


@register("glcb", source="Sezener, Hutter, Budden, Wang, Veness 2020, with our own optimizer", version=7)
class GLCB(Policy):
    """The bandit of the paper, with our own optimizer and defaults that need no tuning.

    Values come from gated linear networks. Exploration comes from counting how often the same gates were
    active.

    Parameters
    ----------
    arms
        The number of arms, or their names.
    features
        The length of a context.
    rewards
        ``"binary"`` for rewards of 0 or 1, or the range ``(low, high)`` of the rewards.
    seed
        Seed of all random numbers.
    layers, hyperplanes, ..., half_life
        The settings of the algorithm. None selects the default for the kind of reward. :func:`settings_table`
        describes each setting.

    Examples
    --------
    >>> policy = GLCB(arms=["sports", "news", "games"], features=4)
    >>> x = [0.1, 0.9, 0.5, 0.0]
    >>> decision = policy.decide(x)
    >>> policy.learn(x, decision.arm, reward=1)

    Rewards other than 0 and 1 need a range. Every setting is a keyword argument:

    >>> policy = GLCB(arms=8, features=21, rewards=(0.0, 1.0), hyperplanes=3)
    >>> policy.settings.hyperplanes
    3

    References
    ----------
    Sezener, Hutter, Budden, Wang, Veness: Online learning in contextual bandits using gated linear networks.
    NeurIPS, 2020.
    """

    arms_are_independent = False
    arms_can_change = True
    can_forget = True
    _binary_settings: ClassVar[Settings] = DEFAULT_BINARY
    _bounded_settings: ClassVar[Settings] = DEFAULT_BOUNDED
    _spare_steps: int
    """Number of steps that the arrays have capacity for."""

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        layers: tuple[int, ...] | None = None,
        hyperplanes: int | tuple[int, ...] | None = None,
        bias_scale: float | None = None,
        optimizer: Optimizer | None = None,
        learning_rate: float | None = None,
        rate_factors: tuple[float, ...] | None = None,
        learning_rate_decay: float | None = None,
        ridges: tuple[float, ...] | None = None,
        damping: float | None = None,
        initialization: Initialization | None = None,
        switching_rate: float | None = None,
        switching_rate_decay: float | None = None,
        bonus_scale: float | None = None,
        bonus_unit: BonusUnit | None = None,
        tree_depth: int | None = None,
        leaf_values: LeafValues | None = None,
        experts: tuple[Expert, ...] | None = None,
        output: Output | None = None,
        clip: float | None = None,
        input_clip: float | None = None,
        bias: float | None = None,
        weight_bound: float | None = None,
        half_life: int | None = None,
    ) -> None:
        named = {name: value for name, value in locals().items() if name in SETTING_NAMES}
        changes: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        super().__init__(arms, features, rewards=rewards, seed=seed)
        defaults = self._binary_settings if self.rewards == "binary" else self._bounded_settings
        settings = self.settings = replace(defaults, **changes)
        self.half_life = settings.half_life
        self._values: Tree = (
            Bernoulli(len(self.arms))
            if self.rewards == "binary"
            else Tree(*self.rewards, settings.tree_depth, len(self.arms), settings.leaf_values)
        )
        self._check_size(len(self.arms))
        units, signatures = len(settings.hyperplanes_of_units), 1 << max(settings.hyperplane_cycle)
        self._gates = Gates(self.features, settings.hyperplanes_of_units, settings.bias_scale, self._rng)
        self._bank = Bank(
            self.features,
            len(self.arms) * self._values.networks_per_arm,
            settings.layers,
            signatures,
            optimizer=_optimizer(self.features, settings),
            initialization=settings.initialization,
            output=settings.output,
            clip=settings.clip,
            input_clip=settings.input_clip,
            bias=settings.bias,
            weight_bound=settings.weight_bound,
        )
        self._experts = Experts(
            len(self.arms),
            self.features,
            settings.experts,
            *reward_range(self.rewards),
            binary=self.rewards == "binary",
            rng=self._rng,
        )
        self._needs_value = self._experts.inputs > 0 and self.rewards != "binary"
        self._counts = VisitCounts(units, signatures, len(self.arms))
        self._rates = RateArrays(
            settings.learning_rate,
            settings.learning_rate_decay,
            settings.switching_rate,
            settings.switching_rate_decay,
            settings.bonus_scale,
            settings.bonus_unit == "deviation",
        )
        self._effective_rewards = np.zeros(len(self.arms), np.int64)
        self._bind()
        warn_before_compiling(kernels.estimate)

    # ---- decisions ----------------------------------------------------------------------------------

    def distribution(self, x: ArrayLike) -> RewardDistribution:
        """Return the predicted distribution of the reward of every arm in context ``x``. Learns nothing.

        Parameters
        ----------
        x
            The context: one number within [0, 1] per feature.

        Returns
        -------
        RewardDistribution
            The possible rewards of each arm and their probabilities.

        Raises
        ------
        InvalidContext
            If ``x`` has the wrong length or a value outside [0, 1].

        Examples
        --------
        >>> GLCB(arms=2, features=1).distribution([0.5]).probabilities.shape
        (2, 2)
        """
        context = _validation.context(x, self.features)
        with self._lock:
            probabilities = self._bank.predict(context, self._gates.signature(context))
            if self.rewards == "binary":
                probabilities = self._estimate(context).values.astype(np.float32)
            per_arm = probabilities.reshape(len(self.arms), -1)
            return RewardDistribution(self._values.outcomes.copy(), self._values.distributions(per_arm))

    def choose(
        self, x: Float32, exploration: float, mode: ExplorationMode, point: float, count: bool
    ) -> Choice:
        """Choose an arm for a valid context in compiled steps; with ``count``, record that as a decision."""
        with self._lock:
            results = np.empty((4, len(self.arms)))
            if count:
                if self._spare_steps == 0:
                    self._ensure_capacity()
                self._spare_steps -= 1
            addresses = self._arrays.addresses
            kernels.load_context(x, addresses)
            arm = kernels.estimate(exploration, mode == "gap", point, count, results, addresses)
            if count:
                self._advance(arm)
        values, bonuses, pseudocounts, probabilities = results
        return Choice(Estimates(values, bonuses, pseudocounts), probabilities, arm)

    def _estimate(self, x: Float32) -> Estimates:
        results, addresses = np.empty((4, len(self.arms))), self._arrays.addresses
        kernels.load_context(x, addresses)
        kernels.estimate(0.0, False, 0.0, False, results, addresses)
        return Estimates(*results[:3])

    def _estimate_many(self, contexts: Float32) -> Iterable[Estimates]:
        """Estimate on all cores: the kernels release the GIL."""
        cores = available_cores()
        if cores == 1 or len(contexts) < _MIN_CONTEXTS_FOR_THREADS:
            return self._estimate_chunk(contexts)
        with ThreadPoolExecutor(cores) as pool:
            chunks = pool.map(self._estimate_chunk, np.array_split(contexts, cores))
            return [estimates for chunk in chunks for estimates in chunk]

    def _estimate_chunk(self, contexts: Float32) -> list[Estimates]:
        results = np.empty((len(contexts), 3, len(self.arms)))
        # Each thread has its own cache of the last context.
        arrays = self._pack(self._bank, self._values, self._experts, self._counts, self._effective_rewards)
        kernels.estimate_many(contexts, results, arrays.addresses)
        return [Estimates(*result) for result in results]

    def _contributions(self, x: Float32, baseline: Float32) -> tuple[Float64, Float64]:
        attribution = self._bank.attribution(x, baseline, self._gates.signature(x))
        at_x, at_baseline = attribution.probabilities.reshape(2, len(self.arms), -1)
        slopes = self._values.slopes(at_x, at_baseline)
        per_network = attribution.contributions.reshape(*slopes.shape, self.features)
        bases = self._values.expected(at_baseline.astype(np.float32)).values
        low, high = reward_range(self.rewards)
        share, regressions = self._experts.shares["networks"], self._experts.contributions(x, baseline)
        return (
            share * bases + (1 - share) * low + (high - low) * regressions.bases,
            share * np.einsum("an,anf->af", slopes, per_network) + (high - low) * regressions.contributions,
        )

    # ---- learning -----------------------------------------------------------------------------------

    def _learn(self, x: Float32, arm: int, reward: float, counted: bool = True) -> None:
        self._spare_steps -= 1
        addresses = self._arrays.addresses
        kernels.load_context(x, addresses)
        value = kernels.network_value(arm, addresses) if self._needs_value else 0.0
        if kernels.learn_reward(arm, reward, value, counted, addresses):
            self._learn_first_rewards_again()

    def _learn_first_rewards_again(self) -> None:
        """Learn the first rewards with random features, whose length is now known.

        A copy learns them, with an empty cache of the last context, and then replaces the experts.
        """
        experts = self._experts.reordered(np.arange(len(self.arms)))
        arrays = self._pack(self._bank, self._values, experts, self._counts, self._effective_rewards)
        for x, arm, target in experts.restart_fourier():
            kernels.load_context(x, arrays.addresses)
            kernels.learn_fourier(arm, target, arrays.addresses)
        self._experts, self._arrays = experts, arrays

    def _count_decision(self, x: Float32, arm: int) -> None:
        self._spare_steps -= 1
        addresses = self._arrays.addresses
        kernels.load_context(x, addresses)
        kernels.count_decision(arm, addresses)

    def _count_and_learn(self, x: Float32, arm: int, reward: float) -> None:
        self._learn(x, arm, reward, counted=False)

    def _forget(self, arms: slice | None = None) -> None:
        per_arm = self._values.networks_per_arm
        self._bank.forget(None if arms is None else slice(arms.start * per_arm, arms.stop * per_arm))
        for part in (self._values, self._experts, self._counts):
            part.forget(arms)
        self._effective_rewards[arms or slice(None)] >>= 1

    # ---- memory -------------------------------------------------------------------------------------

    def _ensure_capacity(self) -> None:
        if self._spare_steps == 0:
            spare = min(self._bank.ensure_capacity(), self._counts.ensure_capacity())
            bound = self._arrays.arrays
            if bound.bank is not self._bank.arrays or bound.counts is not self._counts.arrays:
                self._bind()
            self._spare_steps = spare

    def _bind(self) -> None:
        """Point the kernels to the current arrays; required whenever an array has been replaced."""
        self._arrays = self._pack(
            self._bank, self._values, self._experts, self._counts, self._effective_rewards
        )
        self._spare_steps = 0

    def _pack(
        self,
        bank: Bank,
        values: Tree,
        experts: Experts,
        counts: VisitCounts,
        effective_rewards: Int64,
    ) -> PackedArguments[GLCBArrays]:
        arrays = GLCBArrays(
            gates=self._gates.arrays,
            bank=bank.arrays,
            optimizer=bank.optimizer.arrays,
            tree=values.arrays,
            experts=experts.arrays,
            counts=counts.arrays,
            context_cache=empty_context_cache(self.features, self._gates.units),
            expert_inputs=np.zeros(experts.inputs),
            rates=self._rates,
            effective_rewards=effective_rewards,
        )
        return PackedArguments(arrays, GLCB_ARRAYS)

    def _check_size(self, arms: int) -> None:
        """Raise InvalidSettings if the policy would need too much memory."""
        settings, hyperplanes = self.settings, self.settings.hyperplanes_of_units
        signatures = 1 << max(hyperplanes)
        networks = arms * self._values.networks_per_arm
        needed = (
            Gates.bytes_needed(self.features, hyperplanes)
            + Bank.bytes_needed(self.features, networks, settings.layers, signatures)
            + Newton.bytes_needed(self.features, settings.ridges if settings.optimizer == "newton" else ())
            + Experts.bytes_needed(arms, self.features, settings.experts, self.rewards == "binary")
            + VisitCounts.bytes_needed(len(hyperplanes), signatures, arms)
        )
        weights = Bank.bytes_grown(self.features, networks, settings.layers, hyperplanes)
        counts = 4 * arms * sum(1 << count for count in hyperplanes)
        _validation.check_memory(needed, "A bandit of this size", grown=needed + weights + counts)

    # ---- arms and snapshots -------------------------------------------------------------------------

    def _reordered(self, sources: Int64) -> dict[str, Any]:
        per_arm = self._values.networks_per_arm
        networks = sources[:, None] * per_arm + np.arange(per_arm)
        networks[sources < 0] = -1
        self._check_size(sources.size)
        bank, values, counts = copy(self._bank), copy(self._values), copy(self._counts)
        experts = self._experts.reordered(sources)
        effective_rewards = take_rows(self._effective_rewards, sources, 0)
        bank.reorder(networks.ravel())
        values.reorder(sources)
        counts.reorder(sources)
        return {
            "_bank": bank,
            "_values": values,
            "_experts": experts,
            "_counts": counts,
            "_effective_rewards": effective_rewards,
            "_arrays": self._pack(bank, values, experts, counts, effective_rewards),
            "_spare_steps": 0,
        }

    def _arguments(self) -> dict[str, Any]:
        common = {"arms": list(self.arms), "features": self.features}
        return {**common, "rewards": self.rewards, "seed": self.seed, **asdict(self.settings)}

    def _snapshot(self) -> Arrays:
        return {
            **self._gates.snapshot(),
            **self._bank.snapshot(),
            **self._values.snapshot(),
            **self._experts.snapshot(),
            **self._counts.snapshot(),
            "effective_rewards": self._effective_rewards,
        }

    def _restore(self, arrays: Arrays) -> None:
        for part in (self._gates, self._bank, self._values, self._experts, self._counts):
            part.restore(arrays)
        copy_into({"effective_rewards": self._effective_rewards}, arrays)
        self._bind()


def compile_rewards() -> None:
    """Compile the kernels for rewards and counts, beyond those for decisions."""
    policy = GLCB(arms=2, features=1)
    policy.ensure_capacity()
    addresses = policy._arrays.addresses
    kernels.learn_reward(0, 1.0, 0.0, True, addresses)
    kernels.learn_fourier(0, 1.0, addresses)
    kernels.count_decision(0, addresses)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _optimizer(features: int, settings: Settings) -> GradientDescent | Newton:
    if settings.optimizer == "gradient":
        return GradientDescent(settings.layers, settings.rate_factors)
    return Newton(
        features,
        settings.layers,
        settings.rate_factors,
        settings.ridges,
        settings.damping,
        len(settings.hyperplane_cycle),
    )
