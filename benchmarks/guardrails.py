"""Guardrails and shares: how often and how soon guardrails stop harm, and whether shares hold.

python -m benchmarks.guardrails stops      # 1,000 simulated experiments with harm, and without
python -m benchmarks.guardrails shares     # a million decisions with bounds on the shares
"""

import argparse
from functools import partial
from statistics import median
from typing import NamedTuple, get_args

import numpy as np

from glcb import Bandit
from glcb._api.guardrails import REWARD, Guardrail, Metric, Pauses
from glcb._api.requests import ExperimentSettings
from glcb._arrays import Float64, Int64
from glcb.bandit.ranking import draw_slots
from glcb.evaluate.sequences import boundaries
from glcb.explore.choice import certain
from glcb.policies.decision import Estimates
from glcb.service.core.guard import FALSE_ALARMS, Guard, GuardedDecision, Shares, is_due

ARMS = ("control", "favorite", "second", "third")
TOLERATED = 0.05
BATCH = 1000


class Scenario(NamedTuple):
    """The mean metric of each arm, as a share of the control's mean."""

    name: str
    means: tuple[float, float, float, float]
    rises: bool = False
    """Whether the metric must not rise, instead of fall."""


class Stop(NamedTuple):
    """When a guardrail broke, and for which arm."""

    decisions: int
    arm: str | None


OWN = np.array([[0.05, 0.85, 0.05, 0.05], [0.07, 0.79, 0.07, 0.07]])
"""The probabilities of the bandit in two contexts."""
SCENARIOS = (
    Scenario("no harm: all arms like the control", (1.0, 1.0, 1.0, 1.0)),
    Scenario("no harm: all arms at the tolerated limit, 5% below", (1.0, 0.95, 0.95, 0.95)),
    Scenario("harm: the favorite 20% below", (1.0, 0.8, 1.0, 1.0)),
    Scenario("harm: the favorite 40% below", (1.0, 0.6, 1.0, 1.0)),
    Scenario("no harm: all arms at the tolerated limit, 5% above", (1.0, 1.05, 1.05, 1.05), rises=True),
    Scenario("harm: the favorite 20% above", (1.0, 1.2, 1.0, 1.0), rises=True),
    Scenario("harm: the favorite 40% above", (1.0, 1.4, 1.0, 1.0), rises=True),
)


def guardrail_of(scenario: Scenario, pauses: Pauses) -> Guardrail:
    """Return the guardrail of a scenario."""
    if scenario.rises:
        return Guardrail(metric="kept", max_rise=TOLERATED, pauses=pauses)
    return Guardrail(metric="kept", max_fall=TOLERATED, pauses=pauses)


class Draws(NamedTuple):
    """The decisions of one simulated experiment."""

    contexts: Int64
    chosen: Int64
    values: Float64
    """The metric of each decision."""


def draw(scenario: Scenario, decisions: int, traffic: float, seed: int) -> Draws:
    """Return the decisions of an experiment.

    The bandit decides a share of the traffic, and the rest is served the control. About 80% of the bandit's
    decisions go to the favorite. The metric follows a cycle.
    """
    rng = np.random.default_rng(seed)
    contexts = rng.integers(0, len(OWN), decisions)
    served = np.cumsum((1 - traffic) * certain(0, len(ARMS)) + traffic * OWN, axis=1)[contexts]
    chosen = (rng.random(decisions)[:, None] >= served).sum(axis=1)
    rates = 0.3 + 0.4 * (np.arange(decisions) % 1000) / 1000
    values = (rng.random(decisions) < rates * np.array(scenario.means)[chosen]).astype(float)
    return Draws(contexts, chosen, values)


def guarded(traffic: float, pauses: Pauses) -> list[list[GuardedDecision]]:
    """Return the service's records of a decision, by context and chosen arm."""
    control, random = certain(0, len(ARMS)), np.full(len(ARMS), 1 / len(ARMS))
    logged = (1 - traffic) * control + traffic * OWN
    return [
        [
            GuardedDecision.of(Shares(own, random, control, served, served, arm), with_arms=pauses == "arm")
            for arm in range(len(ARMS))
        ]
        for own, served in zip(OWN, logged, strict=True)
    ]


def stop_in_service(draws: Draws, traffic: float, guardrail: Guardrail) -> Stop | None:
    """Return when the guardrail breaks, decision by decision, as in the service."""
    settings = ExperimentSettings(
        arms=list(ARMS),
        control=ARMS[0],
        metrics={"kept": Metric(range=(0.0, 1.0))},
        guardrails=[guardrail],
    )
    guard = Guard()
    guard.configure([guardrail])
    ranges = {REWARD: (0.0, 1.0), "kept": (0.0, 1.0)}
    kinds, looked = guarded(traffic, guardrail.pauses), 0
    for number, (context, arm, value) in enumerate(zip(*map(np.ndarray.tolist, draws), strict=True), start=1):
        decision = kinds[context][arm]
        decision.metrics = {"kept": value}
        guard.count(decision, value, settings, ranges, ARMS)
        if is_due(number, looked):
            looked = number
            breach = guard.find_breach(settings, ARMS)
            if breach is not None:
                return Stop(number, breach.arm)
    return None


def stop(draws: Draws, traffic: float, guardrail: Guardrail) -> Stop | None:
    """Return the same, computed for all decisions at once."""
    pauses, sign = guardrail.pauses, -1 if guardrail.rises else 1
    contexts, chosen, values = draws
    size, kinds = len(values), guarded(traffic, pauses)
    numbers = np.arange(1, size + 1)
    references = [[one.control for one in row] for row in kinds]
    ratio = np.array([[one.ratio for one in row if one] for row in references])[contexts, chosen]
    largest = np.array([max(one.largest for one in row if one) for row in references])[contexts]
    centers = (0.5 + np.cumsum(values) - values) / numbers
    limit = 1 - sign * TOLERATED
    if pauses == "arm":
        own = OWN[contexts]
        ratios = np.array([np.frombuffer(row[0].ratios) for row in kinds])[contexts]
        hit = chosen[:, None] == np.arange(len(ARMS))
    else:
        own, hit = np.ones((size, 1)), np.ones((size, 1), bool)
        ratios = np.array([[one.ratio for one in row] for row in kinds])[contexts, chosen][:, None]
    highest = ratios if pauses == "arm" else np.array([row[0].largest for row in kinds])[contexts][:, None]
    lowest = -limit * own * largest[:, None]
    if guardrail.rises:
        highest, lowest = -lowest, -highest
    estimates = sign * (hit * ratios - limit * own * ratio[:, None]) * (values - centers)[:, None]
    margins = np.cumsum(estimates + own * TOLERATED * centers[:, None], axis=0)
    above = np.maximum(highest * (1 - centers[:, None]), -lowest * centers[:, None])
    looks, looked = [], 0
    for number in range(1, size + 1):
        if is_due(number, looked):
            looked = number
            looks.append(number - 1)
    squares, scales = np.cumsum(estimates**2, axis=0)[looks], np.maximum.accumulate(above)[looks]
    error = FALSE_ALARMS / (len(ARMS) if pauses == "arm" else 1)
    broken = margins[looks] + boundaries(squares.ravel(), scales.ravel(), error).reshape(squares.shape) < 0
    if pauses == "arm":
        broken[:, 0] = False  # the control is never paused
    if not broken.any():
        return None
    first = int(broken.any(axis=1).argmax())
    return Stop(looks[first] + 1, ARMS[int(broken[first].argmax())] if pauses == "arm" else None)


def stops(runs: int, decisions: int, traffic: float) -> None:
    """Print how often and how soon guardrails break."""
    print(f"{runs} runs of {decisions:,} decisions; {TOLERATED:.0%} tolerated, traffic {traffic:.0%}\n")
    print("| metric | pauses | stopped | decisions until then: median, 90% | right arm |")
    print("|:--|:--|--:|--:|--:|")
    for scenario in SCENARIOS:
        for pauses in get_args(Pauses)[:2]:
            rule = guardrail_of(scenario, pauses)
            found = [stop(draw(scenario, decisions, traffic, seed), traffic, rule) for seed in range(runs)]
            assert found[:2] == [  # the shortcut is exact
                stop_in_service(draw(scenario, decisions, traffic, seed), traffic, rule) for seed in (0, 1)
            ]
            broken = sorted(one for one in found if one is not None)
            row = f"| {scenario.name} | {pauses} | {len(broken) / runs:.1%} |"
            times = [one.decisions for one in broken]
            row += f" {median(times):,.0f}, {times[int(0.9 * len(times))]:,} |" if broken else " – |"
            right = sum(one.arm == "favorite" for one in broken)
            row += f" {right / len(broken):.1%} |" if broken and pauses == "arm" else " – |"
            print(row, flush=True)


def _same(estimates: Estimates, _slot: int) -> Estimates:
    return estimates


def shares(decisions: int) -> None:
    """Print whether the probabilities of a bandit are within their bounds, and match frequencies.

    The scores are random; the bandit turns them into probabilities and draws, as in every decision.
    """
    bounds = {"a": (0.2, 0.5), "b": (0.0, 0.3), "c": (0.05, 1.0)}
    arms = ("a", "b", "c", "d")
    core = Bandit(arms, shares=bounds, seed=0)._core
    rng = np.random.default_rng(0)
    counts, expected = np.zeros(len(arms)), np.zeros(len(arms))
    covariance = np.zeros((len(arms), len(arms)))
    lowest, highest = np.ones(len(arms)), np.zeros(len(arms))
    exploration, none = core.choice_rule(False, None), np.zeros(len(arms))
    for _ in range(decisions // BATCH):
        rows: Float64 = np.empty((BATCH, len(arms)))
        for number, scores in enumerate(rng.random((BATCH, len(arms)))):
            estimates = Estimates(scores, none, none)
            [slot] = draw_slots(partial(_same, estimates), None, 1, exploration, lambda _: rng.random())
            rows[number] = slot.probabilities
            counts[slot.chosen] += 1
        expected += rows.sum(axis=0)
        covariance += np.diag(rows.sum(axis=0)) - rows.T @ rows
        lowest, highest = np.minimum(lowest, rows.min(axis=0)), np.maximum(highest, rows.max(axis=0))
    print(f"{decisions:,} decisions, bounds {bounds}\n")
    print("| arm | lowest and highest probability | chosen | sum of the probabilities |")
    print("|:--|--:|--:|--:|")
    for number, arm in enumerate(arms):
        low, high = lowest[number], highest[number]
        print(f"| {arm} | {low:.6f} to {high:.6f} | {counts[number]:,.0f} | {expected[number]:,.1f} |")
    difference = counts - expected
    statistic = float(difference @ np.linalg.pinv(covariance) @ difference)
    print(f"\nχ² = {statistic:.2f} with {len(arms) - 1} degrees of freedom (5% point 7.81)")
    for arm, (low, high) in bounds.items():
        number = arms.index(arm)
        assert low - 1e-12 <= lowest[number] <= highest[number] <= high + 1e-12, arm


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("stops", "shares"))
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--decisions", type=int)
    parser.add_argument("--traffic", type=float, default=0.5, help="share that the bandit decides")
    arguments = parser.parse_args()
    if arguments.what == "stops":
        stops(arguments.runs, arguments.decisions or 5000, arguments.traffic)
    else:
        shares(arguments.decisions or 1_000_000)


if __name__ == "__main__":
    main()
