"""Gated Linear Contextual Bandits (Sezener, Hutter, Budden, Wang, Veness 2020).

Values come from gated linear networks, exploration from counting how often the same gates opened.
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import asdict, replace
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike

from glcb import _validation
from glcb._arrays import State, fill, rearranged
from glcb._errors import InvalidSettings
from glcb._numba.packed import Packed
from glcb._types import Arm, Float32, Float64, Int64, Rewards
from glcb.explore import Counts
from glcb.gln import Bank, ContextCacheArrays, Gates, GradientDescent, Newton, empty_context_cache
from glcb.policies.base import Estimates, Policy
from glcb.policies.glcb import kernels as glcb_kernels
from glcb.policies.glcb.kernels import GLCB_ARRAYS, GLCBArrays, RateArrays
from glcb.policies.glcb.settings import DEFAULT_BINARY, DEFAULT_BOUNDED, SettingChanges, Settings
from glcb.policies.registry import register
from glcb.values import Bernoulli, Tree

_WORTH_THREADS = 256
"""For fewer contexts than this, starting threads is not worth it."""


class RewardDistribution(NamedTuple):
    """What reward each arm is predicted to bring, not only on average."""

    outcomes: Float64
    """The rewards that each arm can bring: 0 and 1, or one for each bin; one row per arm."""
    probabilities: Float64
    """The probability of each outcome, one row per arm; their mean is the value of the arm.

    Rewards between what two neighboring bins stand for count for both in part.
    """


@register("glcb", source="Sezener, Hutter, Budden, Wang, Veness 2020, with a learner of our own", version=3)
class GLCB(Policy):
    """The bandit of the paper, with a learner and defaults of our own that need no tuning.

    >>> bandit = GLCB(arms=["sports", "news", "games"], features=4)
    >>> x = [0.1, 0.9, 0.5, 0.0]
    >>> choice = bandit.decide(x)
    >>> bandit.learn(x, choice.arm, reward=1)

    Rewards other than 0 and 1 need their range, and any hyper-parameter can be given by its name:

    >>> bandit = GLCB(arms=8, features=21, rewards=(0.0, 1.0), hyperplanes=3)
    >>> bandit.settings.hyperplanes
    3
    """

    arms_can_change = True
    can_forget = True

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        **changes: Unpack[SettingChanges],
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        self.settings = _settings(self.rewards, changes)
        settings = self.settings
        self.half_life = settings.half_life
        self._values: Tree = (
            Bernoulli(len(self.arms))
            if self.rewards == "binary"
            else Tree(*self.rewards, settings.tree_depth, len(self.arms), settings.leaf_values)
        )
        hyperplanes = settings.hyperplanes_of_units
        units, signatures = len(hyperplanes), 1 << max(hyperplanes)
        networks = len(self.arms) * self._values.networks_per_arm
        self._check_memory(len(self.arms))
        self._gates = Gates(self.features, hyperplanes, settings.bias_scale, self._rng)
        self._bank = Bank(
            self.features,
            networks,
            settings.layers,
            signatures,
            step=_step(self.features, settings),
            start=settings.start,
            output=settings.output,
            clip=settings.clip,
            input_clip=settings.input_clip,
            bias=settings.bias,
            weight_box=settings.weight_box,
        )
        self._counts = Counts(units, signatures, len(self.arms))
        self._evidence = np.zeros(len(self.arms), np.int64)
        self._manner = RateArrays(
            settings.learning_rate,
            settings.learning_rate_decay,
            settings.switching_rate,
            settings.switching_rate_decay,
            settings.bonus_scale,
            settings.bonus_unit == "deviation",
        )
        self._sight = empty_context_cache(self.features, units)
        self._gather()

    def distribution(self, x: ArrayLike) -> RewardDistribution:
        """Return the predicted distribution of the reward of every arm in context ``x``."""
        context = _validation.context(x, self.features)
        with self._lock:
            probabilities = self._probabilities(context, self._gates.signature(context))
            return RewardDistribution(self._values.outcomes.copy(), self._values.distributions(probabilities))

    def _gather(self) -> None:
        """Hand the parts to the kernels, whenever one of them has taken other arrays."""
        self._brain = self._brain_with(self._bank, self._values, self._counts, self._evidence, self._sight)
        self._room = 0

    def _brain_with(
        self, bank: Bank, values: Tree, counts: Counts, evidence: Int64, sight: ContextCacheArrays
    ) -> Packed[GLCBArrays]:
        brain = GLCBArrays(
            self._gates.planes,
            bank.memory,
            bank.step.stepper,
            values.leaves,
            counts.tries,
            sight,
            self._manner,
            evidence,
        )
        return Packed(brain, GLCB_ARRAYS)

    def _estimate(self, x: Float32) -> Estimates:
        results = np.empty((1, 3, len(self.arms)))
        glcb_kernels.estimate(x.reshape(1, -1), results, self._brain.places)
        return Estimates(results[0, 0], results[0, 1], results[0, 2])

    def _attribute(self, x: Float32, baseline: Float32) -> tuple[Float64, Float64]:
        found = self._bank.attribution(x, baseline, self._gates.signature(x))
        here, there = found.probabilities.reshape(2, len(self.arms), -1)
        slopes = self._values.slopes(here, there)
        parts = found.contributions.reshape(*slopes.shape, self.features)
        bases = self._values.expected(there.astype(np.float32)).values
        return bases, np.einsum("an,anf->af", slopes, parts)

    def _estimate_many(self, contexts: Float32) -> Iterable[Estimates]:
        """Estimate on all cores: the kernels let go of the interpreter's lock."""
        cores = _cores()
        if cores == 1 or len(contexts) < _WORTH_THREADS:
            return self._estimate_part(contexts)
        with ThreadPoolExecutor(cores) as pool:
            parts = pool.map(self._estimate_part, np.array_split(contexts, cores))
            return [row for rows in parts for row in rows]

    def _estimate_part(self, contexts: Float32) -> list[Estimates]:
        results = np.empty((len(contexts), 3, len(self.arms)))
        sight = empty_context_cache(self.features, self._gates.units)
        own = self._brain_with(self._bank, self._values, self._counts, self._evidence, sight)
        glcb_kernels.estimate(contexts, results, own.places)
        return [Estimates(*result) for result in results]

    def _probabilities(self, x: Float32, signature: np.ndarray) -> Float32:
        """Return what each network says, one row per arm."""
        return self._bank.predict(x, signature).reshape(len(self.arms), -1)

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        glcb_kernels.learn_reward(x, arm, reward, True, self._brain.places)

    def _count_decision(self, x: Float32, arm: int) -> None:
        glcb_kernels.count_try(x, arm, self._brain.places)

    def _count_and_learn(self, x: Float32, arm: int, reward: float) -> None:
        glcb_kernels.learn_reward(x, arm, reward, False, self._brain.places)

    def _ensure_capacity(self) -> None:
        if self._room == 0:
            room = min(self._bank.ensure_capacity(), self._counts.ensure_capacity())
            known = self._brain.parts
            if known.memory is not self._bank.memory or known.tries is not self._counts.tries:
                self._gather()
            self._room = room
        self._room -= 1

    def _forget(self) -> None:
        for part in (self._bank, self._values, self._counts):
            part.forget()
        self._evidence >>= 1

    def _rearranged(self, sources: Int64) -> dict[str, Any]:
        per_arm = self._values.networks_per_arm
        networks = sources[:, None] * per_arm + np.arange(per_arm)
        networks[sources < 0] = -1
        self._check_memory(sources.size)
        bank, values, counts = copy(self._bank), copy(self._values), copy(self._counts)
        evidence = rearranged(self._evidence, sources, 0)
        bank.rearrange(networks.ravel())
        values.rearrange(sources)
        counts.rearrange(sources)
        return {
            "_bank": bank,
            "_values": values,
            "_counts": counts,
            "_evidence": evidence,
            "_brain": self._brain_with(bank, values, counts, evidence, self._sight),
            "_room": 0,
        }

    def _check_memory(self, arms: int) -> None:
        settings, hyperplanes = self.settings, self.settings.hyperplanes_of_units
        signatures = 1 << max(hyperplanes)
        networks = arms * self._values.networks_per_arm
        _validation.memory(
            Gates.bytes_needed(self.features, hyperplanes)
            + Bank.bytes_needed(self.features, networks, settings.layers, signatures)
            + Newton.bytes_needed(self.features, settings.ridges if settings.step == "newton" else ())
            + Counts.bytes_needed(len(hyperplanes), signatures, arms),
            "A bandit of this size",
        )

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), **asdict(self.settings)}

    def _state(self) -> State:
        return {
            **self._gates.state(),
            **self._bank.state(),
            **self._values.state(),
            **self._counts.state(),
            "evidence": self._evidence,
        }

    def _restore(self, state: State) -> None:
        for part in (self._gates, self._bank, self._values, self._counts):
            part.restore(state)
        fill({"evidence": self._evidence}, state)
        self._gather()


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _step(features: int, settings: Settings) -> GradientDescent | Newton:
    if settings.step == "plain":
        return GradientDescent(settings.layers, settings.rate_factors)
    return Newton(
        features,
        settings.layers,
        settings.rate_factors,
        settings.ridges,
        settings.damping,
        len(settings.kinds_of_gates),
    )


def _settings(rewards: Rewards, changes: SettingChanges) -> Settings:
    unknown = set(changes) - set(SettingChanges.__annotations__)
    if unknown:
        known = ", ".join(SettingChanges.__annotations__)
        raise InvalidSettings(f"GLCB has no setting {', '.join(sorted(unknown))}; the settings are {known}")
    return replace(DEFAULT_BINARY if rewards == "binary" else DEFAULT_BOUNDED, **changes)
