"""One pass over a log: the estimates of all policies, their intervals, and the checks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from glcb._arrays import Arrays, Float64, Int64
from glcb._model_file import Snapshot
from glcb._types import Arm, reward_range
from glcb.bandit.bandit import Bandit
from glcb.evaluate import estimators as est
from glcb.evaluate.diagnostics import NO_INTERVAL, NO_PROPENSITIES, ContextSums, WeightSums, check_identifiers
from glcb.evaluate.log import ChunkReader
from glcb.evaluate.marginals import marginal_probabilities
from glcb.evaluate.replay import PolicyReplay
from glcb.evaluate.result import Evaluation, Interval, Point, PolicyResult, Quantity
from glcb.evaluate.robust import RobustSequence
from glcb.evaluate.rows import Chunk, Survey
from glcb.evaluate.sequences import CONFIDENCE, BettingSequence, LowerSequence
from glcb.evaluate.targets import BanditTarget, RewardModel, Target

LOGGED = "logged"
"""The name of the policy that wrote the log."""
DEFAULT_ESTIMATORS = ("dr", "snips", "ips", "dm")
RANKING_ESTIMATORS = ("rips", "snips", "ips")
"""The default for rankings."""
_MAX_POINTS = 400
_BOOTSTRAP, _MARGINALS = 0, 2
_MODEL = "model"
_ERROR = (1 - CONFIDENCE) / 2
"""How often one end of an interval may be wrong."""


@dataclass
class EvaluationPlan:
    """What to evaluate, after everything has been checked."""

    arms: tuple[Arm, ...]
    index: Mapping[Arm, int]
    """The position of each arm, under each of its spellings."""
    survey: Survey
    targets: Mapping[str, Target]
    replays: Mapping[str, BanditTarget]
    """The policies that are also replayed."""
    estimators: Sequence[str]
    reference: str
    seed: int
    max_ratio: float
    min_propensity: float
    """The smallest propensity of the logging policy."""
    constant_values: bool = False
    """Whether to add a betting sequence, which assumes that the value of each policy is constant."""
    uniform: bool = False
    """Whether uniform logging is assumed."""
    modeled: bool = False
    """Whether the log has no propensities, so that only the reward model is available."""
    logging: Target | None = None
    """The policy that wrote the log, for marginal propensities."""
    notes: list[str] = field(default_factory=list)

    @property
    def reward_range(self) -> tuple[float, float]:
        """The range of a slot's reward."""
        low, high = reward_range(self.survey.rewards)
        if self.survey.slots > 1:  # the reward of a slot that is missing, or was not examined, is 0
            return min(low, 0.0), max(high, 0.0)
        return low, high

    @property
    def reader(self) -> ChunkReader:
        """The reader that divides the log into chunks."""
        return ChunkReader(self.arms, self.index, self.reward_range, self.uniform, self.modeled)


class Part(Protocol):
    """A part of an evaluator that has a state."""

    def snapshot(self) -> Arrays | Snapshot | None:
        """Return the state."""

    def restore(self, state: Any) -> None:
        """Restore a snapshot."""


class Visitor(Part, Protocol):
    """A part that visits the chunks of a log, independent of other parts."""

    has_state: bool
    """Whether a visit depends on earlier ones, so that chunks must be visited in order."""
    uses_contexts: bool
    """Whether it needs the contexts. Such visitors take most of the time of an evaluation."""

    def visit(self, chunk: Chunk) -> Any:
        """Return the visitor's output for a chunk; then learn from the chunk."""


def _target(policy: str) -> str:
    """Return the name of the visitor that assigns the probabilities of a policy."""
    return f"target.{policy}"


def _replay(policy: str) -> str:
    """Return the name of the visitor that replays a policy."""
    return f"replay.{policy}"


class EvaluatorState(NamedTuple):
    """The state of an evaluator between two chunks."""

    chunks: int
    spacing: int
    points: list[list[list[float]]]
    parts: dict[str, Arrays | Snapshot | None]


class _Assigned(NamedTuple):
    """The policies' choices in the rows of a chunk. The first policy is the one that wrote the log."""

    shares: list[Float64]
    """For every other policy, the probability of each arm in each row."""
    match: Float64
    """The probability of the logged arm; the propensity for the first policy."""
    totals: Float64
    """The sum of the probabilities of each arm over the rows."""


class _Terms(NamedTuple):
    rows: est.Rows
    gains: Float64
    """Nonnegative numbers whose means are the values."""
    losses: Float64
    """Nonnegative numbers whose means are 1 − the values."""
    match: Float64


class Evaluator:
    """Evaluates policies on the chunks of a log. Its state can be saved between chunks."""

    def __init__(self, plan: EvaluationPlan) -> None:
        self._plan = plan
        self._names = [LOGGED, *plan.targets]
        self._reference = self._names.index(plan.reference)
        policies = len(self._names)
        self._slots = plan.survey.slots
        self._range = low, high = plan.reward_range
        self._value_range = self._slots * low, self._slots * high
        self._sums = [est.EstimateSums(name, policies) for name in plan.estimators]
        self._bootstrap = est.Bootstrap(self._sums)
        self._sequence = LowerSequence(2 * policies)
        self._difference = LowerSequence(2 * policies, largest=2.0)
        self._betting = BettingSequence(2 * policies) if plan.constant_values and not plan.modeled else None
        self._weights = WeightSums(policies, len(plan.arms))
        self._contexts = ContextSums(plan.survey.rows)
        self.visitors: dict[str, Visitor] = {
            **{_target(name): own for name, own in plan.targets.items()},
            **{
                _replay(name): PolicyReplay(own, plan.max_ratio, plan.seed)
                for name, own in plan.replays.items()
            },
        }
        """The policies and the model of the rewards. Visits can take place in another process."""
        if any(name in est.MODELED for name in plan.estimators):
            arms: Any = {} if plan.survey.shares_arms else plan.arms
            model = Bandit(arms, rewards=plan.survey.rewards, exploration=0.0, seed=plan.seed)
            self.visitors[_MODEL] = RewardModel(model, plan.arms, self._range)
        self._robust: RobustSequence | None = None
        if "dr" in plan.estimators:
            self._robust = RobustSequence(policies, self._reference, plan.min_propensity)
        self._points: list[list[Point]] = [[] for _ in self._names]
        self._spacing = 1
        self.chunks = 0
        """Number of chunks evaluated."""

    @property
    def rows(self) -> int:
        """Number of rows of the log."""
        return self._plan.survey.rows

    @property
    def is_divisible(self) -> bool:
        """Whether visits can take place in other processes; policies of "iips" share random numbers."""
        return self._plan.logging is None

    # ---- adding rows ----------------------------------------------------------------------------

    def run(self, chunks: Iterable[Chunk]) -> Iterator[int]:
        """Evaluate the chunks of a log, skipping finished ones; yield the number of rows after each."""
        done, rows = self.chunks, 0
        for number, chunk in enumerate(chunks):
            rows += chunk.decisions
            if number >= done:
                self.add(chunk, {name: own.visit(chunk) for name, own in self.visitors.items()})
                yield rows

    def add(self, chunk: Chunk, visits: Mapping[str, Any]) -> None:
        """Add the next chunk of the log with the output of each visitor."""
        assigned = self._assign(chunk, visits)
        model = visits.get(_MODEL)
        if self._slots == 1:
            terms = self._terms(chunk, assigned, model)
        else:
            terms = self._ranking_terms(chunk, assigned)
        rows = terms.rows
        columns = [own.terms(rows) for own in self._sums]
        for own, column in zip(self._sums, columns, strict=True):
            own.add(column)
        self._bootstrap.add(columns, self._rng(_BOOTSTRAP))
        gains, losses, reference = terms.gains, terms.losses, [self._reference]
        self._sequence.add(np.hstack([gains, losses]))
        self._difference.add(np.hstack([gains + losses[:, reference], losses + gains[:, reference]]))
        if self._betting is not None:
            self._betting.add(np.hstack([gains, losses]))
        self._weights.add(
            rows.weight,
            terms.match,
            rows.reward,
            assigned.totals,
            chunk.arm,
            chunk.propensity,
            chunk.eligible,
        )
        self.chunks += 1
        self._add_points()

    def _rng(self, purpose: int) -> np.random.Generator:
        """Return the random numbers of a chunk; they do not depend on the chunks before."""
        return np.random.default_rng((self._plan.seed, self.chunks, purpose))

    def _assign(self, chunk: Chunk, visits: Mapping[str, Any]) -> _Assigned:
        """Return the choices of every policy."""
        position = np.arange(len(chunk))
        logged = np.bincount(chunk.arm, minlength=len(self._plan.arms)).astype(np.float64)
        shares = [visits[_target(name)] for name in self._plan.targets]
        match = np.column_stack([chunk.propensity, *(own[position, chunk.arm] for own in shares)])
        return _Assigned(shares, match, np.array([logged, *(own.sum(axis=0) for own in shares)]))

    def _terms(self, chunk: Chunk, assigned: _Assigned, model: tuple[Float64, Float64] | None) -> _Terms:
        """Return the inputs of the estimators of single decisions."""
        position, reward = np.arange(len(chunk)), chunk.reward[:, None]
        predictions = np.zeros((len(chunk), len(self._plan.arms)))
        if model is not None:
            predictions, encoded = model
            self._contexts.add(encoded)
        weight = assigned.match / chunk.propensity[:, None]
        if self._robust is not None:
            self._robust.add(chunk.reward, chunk.arm, weight, assigned.shares, predictions)
        expected = [chunk.reward, *((shares * predictions).sum(axis=1) for shares in assigned.shares)]
        predicted = np.repeat(predictions[position, chunk.arm][:, None], len(self._names), axis=1)
        predicted[:, 0] = chunk.reward  # the rewards of the logging policy are known
        rows = est.Rows(reward, weight, predicted, np.column_stack(expected))
        match = assigned.match.copy()
        match[:, 0] = 1.0
        return _Terms(rows, weight * reward, weight * (1 - reward), match)

    def _ranking_terms(self, chunk: Chunk, assigned: _Assigned) -> _Terms:
        """Return the inputs of the ranking estimators. The reward of a ranking is the sum over its slots."""
        low, high = self._range
        place = np.cumsum(chunk.slot == 0) - 1, chunk.slot
        shape = int(place[0][-1]) + 1, self._slots
        rewards = np.full(shape, (0.0 - low) / (high - low) / self._slots)
        rewards[place] = chunk.reward / self._slots
        logged, target = np.ones(shape), np.ones((*shape, len(self._names)))
        logged[place], target[place] = chunk.propensity, assigned.match
        slots = est.SlotRows(rewards, logged, target)
        if "iips" in self._plan.estimators:
            slots = self._with_marginals(slots, chunk, place)
        reward = rewards.sum(axis=1)[:, None]
        match = target.prod(axis=1)
        weight = match / logged.prod(axis=1)[:, None]
        match[:, 0] = 1.0
        nothing = np.zeros_like(weight)
        rows = est.Rows(reward, weight, nothing, nothing, slots)
        if "rips" not in self._plan.estimators:
            return _Terms(rows, weight * reward, weight * (1 - reward), match)
        losses = slots.reward_interaction(1 / self._slots - rewards)
        return _Terms(rows, slots.reward_interaction(), losses, match)

    def _with_marginals(self, slots: est.SlotRows, chunk: Chunk, place: tuple[Int64, Int64]) -> est.SlotRows:
        """Add the marginal propensities, for independent IPS."""
        assert self._plan.logging is not None  # checked before
        rng = self._rng(_MARGINALS)
        logged, target = np.ones_like(slots.logged), np.ones_like(slots.target)
        logged[place] = marginal_probabilities(self._plan.logging, chunk, rng)
        # A simulation can miss how the slots were filled, so take at least the probability of that.
        logged = np.maximum(logged, np.cumprod(slots.logged, axis=1))
        target[..., 0] = logged
        for policy, own in enumerate(self._plan.targets.values(), 1):
            target[(*place, policy)] = marginal_probabilities(own, chunk, rng)
        return slots._replace(logged_marginal=logged, target_marginal=target)

    def _add_points(self) -> None:
        """Add a point to every curve; drop every other point when there are too many."""
        if self.chunks % self._spacing:
            return
        values = self._sums[0].estimates()
        lows, highs = (values, values) if self._plan.modeled else self._bounds()
        lows, highs = (np.where(lows > highs, values, bounds) for bounds in (lows, highs))
        rows = int(self._sums[0].snapshot()["count"][0])
        for own, value, low, high in zip(self._points, values, lows, highs, strict=True):
            own.append(Point(rows, self._unscale(value), self._unscale(low), self._unscale(high)))
        if len(self._points[0]) > _MAX_POINTS:
            self._points = [own[1::2] for own in self._points]
            self._spacing *= 2

    # ---- results --------------------------------------------------------------------------------

    def result(self) -> Evaluation:
        """Return the results so far."""
        plan, survey = self._plan, self._plan.survey
        logged_counts = [survey.arms.get(arm, 0) for arm in plan.arms]
        weights = self._weights
        overall = [NO_PROPENSITIES]
        if not plan.modeled:
            overall = [weights.check_propensities(), weights.check_frequencies(plan.arms)]
        overall.append(check_identifiers(survey.identifiers))
        if _MODEL in self.visitors:
            overall.append(self._contexts.check())
        results = [self._policy(position, name, logged_counts) for position, name in enumerate(self._names)]
        replays = [
            PolicyResult(
                name=f"{name} (replay)",
                estimates={"replay": self._quantity(replay.estimate())},
                diagnostics=replay.check(),
                rows=replay.accepted,
            )
            for name, replay in self._replays().items()
        ]
        return Evaluation(
            rows=survey.rows,
            slots=survey.slots,
            arms={arm: survey.arms.get(arm, 0) for arm in plan.arms},
            reference=plan.reference,
            policies=results,
            replays=replays,
            diagnostics=overall,
            refused=dict(survey.refused),
            examples=dict(survey.examples),
            notes=list(plan.notes),
        )

    def _replays(self) -> dict[str, PolicyReplay]:
        return {name: cast("PolicyReplay", self.visitors[_replay(name)]) for name in self._plan.replays}

    def _policy(self, position: int, name: str, logged: Sequence[int]) -> PolicyResult:
        estimates, differences = {}, {}
        for number, sums in enumerate(self._sums):
            own = self._bootstrap.interval(number, position, None, CONFIDENCE)
            estimates[sums.estimator] = self._quantity(sums.estimate(position), own)
            pair = self._bootstrap.interval(number, position, self._reference, CONFIDENCE)
            difference = sums.difference(position, self._reference)
            differences[sums.estimator] = self._quantity(difference, pair, is_difference=True)
        weights = self._weights
        result = PolicyResult(
            name=name,
            estimates=estimates,
            differences=differences,
            rows=int(sums.snapshot()["count"][0]),
            match_rate=weights.match_rate(position),
            shares=dict(zip(self._plan.arms, weights.assigned(position).tolist(), strict=True)),
            curve=self._points[position],
            diagnostics=[],
        )
        if self._plan.modeled:
            return result
        result.sequence = self._interval(self._bounds(), position)
        result.effective_rows = weights.effective_rows(position)
        result.largest_weight = weights.largest_weight(position)
        if position:
            result.diagnostics = weights.check(position, self._plan.arms, logged)
        if self._robust is not None:
            result.ips_sequence = self._interval(self._weighted_bounds(self._sequence), position)
        if position != self._reference:
            bounds = self._difference_bounds()
            result.difference_sequence = self._interval(bounds, position, is_difference=True)
        if self._betting is not None:
            result.betting_sequence = self._interval(self._weighted_bounds(self._betting), position)
        expected = {
            "sequence": True,
            "ips_sequence": self._robust is not None,
            "difference_sequence": position != self._reference,
            "betting_sequence": self._betting is not None,
        }
        if any(getattr(result, name) is None for name, is_expected in expected.items() if is_expected):
            result.diagnostics.insert(0, NO_INTERVAL)
        return result

    def _interval(
        self, bounds: tuple[Float64, Float64], position: int, is_difference: bool = False
    ) -> Interval | None:
        """Return an interval, or None if its bounds contradict each other."""
        place = self._scale if is_difference else self._unscale
        low, high = (place(own[position]) for own in bounds)
        return None if low > high else Interval(low, high)

    def _bounds(self) -> tuple[Float64, Float64]:
        """Return the bounds of all values, from doubly robust terms if that estimator is used."""
        return self._weighted_bounds(self._sequence) if self._robust is None else self._robust.bounds(_ERROR)

    def _weighted_bounds(self, sequence: LowerSequence | BettingSequence) -> tuple[Float64, Float64]:
        gains, losses = np.split(sequence.bounds(_ERROR), 2)
        return gains, 1 - losses

    def _difference_bounds(self) -> tuple[Float64, Float64]:
        if self._robust is not None:
            return self._robust.difference_bounds(_ERROR)
        # The series have the means 1 + difference and 1 − difference.
        above, below = np.split(self._difference.bounds(_ERROR), 2)
        return above - 1, 1 - below

    def _quantity(
        self,
        estimate: est.ValueEstimate,
        bootstrap: tuple[float, float] | None = None,
        is_difference: bool = False,
    ) -> Quantity:
        """Return an estimate with its intervals, in the unit of the rewards."""
        place = self._scale if is_difference else self._unscale
        radius = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * estimate.error
        return Quantity(
            value=place(estimate.value),
            error=self._scale(estimate.error),
            normal=Interval(place(estimate.value - radius), place(estimate.value + radius)),
            bootstrap=None if bootstrap is None else Interval(*map(place, bootstrap)),
        )

    def _scale(self, difference: float) -> float:
        low, high = self._value_range
        return float(difference) * (high - low)

    def _unscale(self, value: float) -> float:
        return self._value_range[0] + self._scale(value)

    # ---- saving ---------------------------------------------------------------------------------

    def parts(self) -> dict[str, Part]:
        """Return everything that has a state, by name."""
        sequences = {"sequence": self._sequence, "difference": self._difference, "betting": self._betting}
        own: dict[str, Part | None] = {
            "weights": self._weights,
            "contexts": self._contexts,
            "bootstrap": self._bootstrap,
            "robust": self._robust,
            **sequences,
            **{f"sums.{sums.estimator}": sums for sums in self._sums},
            "logging": self._plan.logging,
            **self.visitors,
            **{f"replayed.{name}": replay.target for name, replay in self._replays().items()},
        }
        return {name: part for name, part in own.items() if part is not None}

    def snapshot(self) -> EvaluatorState:
        """Return the state."""
        points = [[list(point) for point in own] for own in self._points]
        states = {name: part.snapshot() for name, part in self.parts().items()}
        return EvaluatorState(self.chunks, self._spacing, points, states)

    def restore(self, state: EvaluatorState) -> None:
        """Restore a snapshot of an evaluator with the same plan.

        Raises
        ------
        ValueError
            If the snapshot has different parts. Nothing was changed.
        """
        parts = self.parts()
        if odd := sorted(parts.keys() ^ state.parts.keys()):
            raise ValueError(f"{', '.join(odd)}: not in both the evaluation and its snapshot")
        for name, part in parts.items():
            part.restore(state.parts[name])
        self.chunks, self._spacing = state.chunks, state.spacing
        self._points = [[Point(int(rows), *rest) for rows, *rest in own] for own in state.points]
