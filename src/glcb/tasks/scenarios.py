"""Scenarios: synthetic tasks, each with one difficulty found in practice.

All of them pay 0 or 1. The probability of a 1 follows from a score of the arm in the context. Half of the
variance of a score is linear in the features and half is not, so that neither linear nor non-linear policies
win by construction. Scores differ between seeds.
"""

from typing import ClassVar

import numpy as np

from glcb._arrays import Bool, Float32, Float64, Int64
from glcb._types import Rewards
from glcb.tasks.base import STEPS, Stream, stream_generators
from glcb.tasks.linear import unit_columns
from glcb.tasks.registry import register


class Scenario:
    """A task with uniform contexts that does not change. Subclasses override what differs.

    The score of an arm is a weighted sum of all features plus a sine wave in the plane of two of them. The
    probability of a reward is the logistic function of the score.
    """

    name: ClassVar[str]
    arms: tuple[int, ...] = tuple(range(6))
    features: int = 10
    rewards: Rewards = "binary"
    steps: int = STEPS
    """Length of a run."""

    def stream(self, seed: int, steps: int | None = None) -> Stream:
        """Return the stream of ``seed``; by default it has the scenario's own length."""
        length = self.steps if steps is None else steps
        context_rng, score_rng, reward_rng, event_rng = stream_generators(seed, length, 4)
        contexts, expected = self._world(length, context_rng, score_rng)
        pays = reward_rng.random(expected.shape) < expected
        return Stream(
            contexts, pays.astype(np.float64), self._available(length), self._delays(length, event_rng)
        )

    def _world(
        self, steps: int, context_rng: np.random.Generator, score_rng: np.random.Generator
    ) -> tuple[Float32, Float64]:
        """Return the contexts and the expected rewards."""
        contexts = context_rng.random((steps, self.features), np.float32)
        return contexts, _logistic(self._scores(contexts, score_rng))

    def _scores(self, contexts: Float32, rng: np.random.Generator) -> Float64:
        """Return the score of every arm at every step."""
        return _mixed_scores(contexts, len(self.arms), rng)

    def _available(self, steps: int) -> Bool | None:
        """Return which arms are available at each step, or None if all are."""
        return None

    def _delays(self, steps: int, rng: np.random.Generator) -> Int64 | None:
        """Return the delay of the reward of each step, or None if there is none."""
        return None


def _mixed_scores(contexts: Float32, arms: int, rng: np.random.Generator) -> Float64:
    """Return scores with mean 0 and variance 1: a linear part and a sine wave of the same variance."""
    features = contexts.shape[1]
    standardized = np.sqrt(12) * (contexts.astype(np.float64) - 0.5)
    linear = standardized @ unit_columns(rng.normal(size=(features, arms)))
    planes = np.zeros((features, arms))
    for arm in range(arms):
        planes[rng.choice(features, 2, replace=False), arm] = rng.normal(size=2)
    waves = np.sqrt(2) * np.sin(2 * standardized @ unit_columns(planes) + rng.uniform(0, 2 * np.pi, arms))
    scores: Float64 = (linear + waves) / np.sqrt(2)
    return scores


def _logistic(scores: Float64) -> Float64:
    """Return the probability of a reward: about 1 in 3 on average."""
    probabilities: Float64 = 1 / (1 + np.exp(1 - 2 * scores))
    return probabilities


def available_between(steps: int, arms: int, arm: int, start: float, end: float) -> Bool:
    """Return a table in which ``arm`` is available only between two shares of the run."""
    available = np.ones((steps, arms), np.bool_)
    available[: round(start * steps), arm] = False
    available[round(end * steps) :, arm] = False
    return available


# ---- changes over time ----


@register
class Drift(Scenario):
    """Six arms and ten uniform features. The scores change gradually during the whole run.

    Every arm has two independent scores. Its weight moves from the first to the second along a quarter of a
    circle, so that the variance stays the same and nothing of the first score is left at the end.
    """

    name = "drift"

    def _scores(self, contexts: Float32, rng: np.random.Generator) -> Float64:
        first, last = (_mixed_scores(contexts, len(self.arms), rng) for _ in range(2))
        angle = np.linspace(0, np.pi / 2, len(contexts))[:, None]
        return np.cos(angle) * first + np.sin(angle) * last


@register
class Switch(Scenario):
    """Six arms and ten uniform features. Halfway through, each arm takes over the scores of the next arm."""

    name = "switch"

    def _scores(self, contexts: Float32, rng: np.random.Generator) -> Float64:
        scores = super()._scores(contexts, rng)
        later = scores[len(scores) // 2 :]
        later[:] = np.roll(later, -1, axis=1)
        return scores


@register
class Newcomer(Scenario):
    """Six arms and ten uniform features. The last arm is available only in the second half of the run.

    Its scores are 0.5 higher than the other arms' scores, so it is the best arm in about 30% of the
    contexts.
    """

    name = "newcomer"

    def _scores(self, contexts: Float32, rng: np.random.Generator) -> Float64:
        scores = super()._scores(contexts, rng)
        scores[:, -1] += 0.5
        return scores

    def _available(self, steps: int) -> Bool:
        return available_between(steps, len(self.arms), len(self.arms) - 1, start=0.5, end=1)


# ---- late and lost rewards ----


@register
class Delay(Scenario):
    """Six arms and ten uniform features. Rewards arrive after 100 further decisions on average.

    The delays have a geometric distribution. Rewards that would arrive after the end are never learned.
    """

    name = "delay"
    mean_delay: ClassVar[float] = 100.0

    def _delays(self, steps: int, rng: np.random.Generator) -> Int64:
        return rng.geometric(1 / (self.mean_delay + 1), steps) - 1


@register
class Lost(Scenario):
    """Six arms and ten uniform features. 30% of the rewards, chosen at random, never arrive."""

    name = "lost"
    loss_rate: ClassVar[float] = 0.3

    def _delays(self, steps: int, rng: np.random.Generator) -> Int64:
        return np.where(rng.random(steps) < self.loss_rate, -1, 0).astype(np.int64)


# ---- rare rewards ----


@register
class ClickScenario(Scenario):
    """Six arms, seven categorical attributes as 31 one-hot features, and a click rate of about 5%.

    The linear part of a score is a sum of attribute-level effects; the other part is an interaction of two
    attributes. The scores of an arm have variance 1 and an arm-specific mean, with a standard deviation of
    0.3. The probability of a click is the rate times exp(score − ½). The last arm is added after 30% of the
    run, and the first one is removed after 60%.
    """

    name = "clicks-5"
    features = 31
    steps = 20_000
    rate: ClassVar[float] = 0.05
    levels: ClassVar[tuple[int, ...]] = (2, 3, 3, 4, 5, 6, 8)
    """Number of levels of each attribute. The frequency of a level is proportional to 1/rank."""

    def _world(
        self, steps: int, context_rng: np.random.Generator, score_rng: np.random.Generator
    ) -> tuple[Float32, Float64]:
        codes = np.stack([context_rng.choice(count, steps, p=zipf(count)) for count in self.levels], axis=1)
        contexts = np.concatenate(
            [np.eye(count, dtype=np.float32)[codes[:, index]] for index, count in enumerate(self.levels)],
            axis=1,
        )
        effects = score_rng.normal(size=(self.features, len(self.arms)))
        scores = contexts @ effects / np.sqrt(len(self.levels))
        for arm in range(len(self.arms)):
            one, other = score_rng.choice(len(self.levels), 2, replace=False)
            together = score_rng.normal(size=(self.levels[one], self.levels[other]))
            scores[:, arm] += together[codes[:, one], codes[:, other]]
        scores = (scores - scores.mean(axis=0)) / scores.std(axis=0)
        scores += 0.3 * score_rng.normal(size=len(self.arms))
        return contexts, np.minimum(self.rate * np.exp(scores - 0.5), 0.9)

    def _available(self, steps: int) -> Bool:
        last = len(self.arms) - 1
        return available_between(steps, last + 1, last, start=0.3, end=1) & available_between(
            steps, last + 1, 0, start=0, end=0.6
        )


def zipf(count: int) -> Float64:
    """Return shares that are proportional to 1/rank."""
    weights = 1 / np.arange(1, count + 1)
    shares: Float64 = weights / weights.sum()
    return shares


@register
class Clicks2(ClickScenario):
    """Like the task clicks-5, but with a click rate of about 2%."""

    name = "clicks-2"
    rate = 0.02


@register
class Clicks1(ClickScenario):
    """Like the task clicks-5, but with a click rate of about 1%."""

    name = "clicks-1"
    rate = 0.01


@register
class RareClicks(ClickScenario):
    """Like the task clicks-5, but with a click rate of about 0.3%, and five times as long."""

    name = "clicks-0.3"
    steps = 100_000
    rate = 0.003


@register
class RarestClicks(RareClicks):
    """Like the task clicks-0.3, but with a click rate of about 0.1%."""

    name = "clicks-0.1"
    rate = 0.001


# ---- size ----


@register
class ManyArms(Scenario):
    """A hundred arms and ten uniform features; an arm can be chosen 50 times on average."""

    name = "many-arms"
    arms = tuple(range(100))


@register
class ManyFeatures(Scenario):
    """Four arms and 1,000 features, such as the words of a text; at most 17 of them are 1.

    A context has one of five subjects and one of four moods. Each of them has 100 words, with frequencies
    proportional to 1/rank. Eight words are drawn from the subject, six from the mood, and three from the
    remaining 100 words. The linear part of a score is an effect of the subject and one of the mood; the other
    part is an effect of both together. All arms have about the same mean score.
    """

    name = "many-features"
    arms = tuple(range(4))
    features = 1000
    steps = 3000
    subjects: ClassVar[int] = 5
    moods: ClassVar[int] = 4
    words: ClassVar[int] = 100

    def _world(
        self, steps: int, context_rng: np.random.Generator, score_rng: np.random.Generator
    ) -> tuple[Float32, Float64]:
        subject = context_rng.integers(self.subjects, size=steps)
        mood = context_rng.integers(self.moods, size=steps)
        frequencies = zipf(self.words)
        drawn = (
            self.words * subject[:, None] + context_rng.choice(self.words, (steps, 8), p=frequencies),
            self.words * (self.subjects + mood[:, None])
            + context_rng.choice(self.words, (steps, 6), p=frequencies),
            context_rng.integers((self.subjects + self.moods) * self.words, self.features, size=(steps, 3)),
        )
        contexts = np.zeros((steps, self.features), np.float32)
        contexts[np.arange(steps)[:, None], np.concatenate(drawn, axis=1)] = 1
        size = (self.subjects, self.moods, len(self.arms))
        effects = (
            score_rng.normal(size=(self.subjects, 1, len(self.arms)))
            + score_rng.normal(size=(1, self.moods, len(self.arms)))
        ) / np.sqrt(2) + score_rng.normal(size=size)
        effects -= effects.mean(axis=(0, 1))
        return contexts, _logistic(effects[subject, mood] / np.sqrt(2))


# ---- little and misleading data ----


@register
class ColdStart(Scenario):
    """Four arms and five uniform features, but only 200 steps."""

    name = "cold-start"
    arms = tuple(range(4))
    features = 5
    steps = 200


@register
class Poisoned(Scenario):
    """Six arms and ten uniform features, but 1% of the contexts are extreme and their rewards misleading.

    In an extreme context every feature is 0 or 1 at random, and the probabilities of 0 and 1 are swapped.
    """

    name = "poisoned"
    share: ClassVar[float] = 0.01

    def _world(
        self, steps: int, context_rng: np.random.Generator, score_rng: np.random.Generator
    ) -> tuple[Float32, Float64]:
        contexts = context_rng.random((steps, self.features), np.float32)
        extreme = context_rng.random(steps) < self.share
        contexts[extreme] = contexts[extreme] < 0.5
        expected = _logistic(self._scores(contexts, score_rng))
        expected[extreme] = 1 - expected[extreme]
        return contexts, expected
