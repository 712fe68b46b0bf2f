"""How soon health checks detect a broken reward pipeline, and how often they fail without cause.

    python -m benchmarks.health --runs 200
    python -m benchmarks.health --table calibration --runs 1000

A visitor arrives every second and clicks with a fixed probability, after half a minute on average. The checks
are evaluated after every 20 decisions. Four pipelines send the rewards:

* ``never``: no reward is ever sent; the default reward is 0 after a timeout of five minutes.
* ``clicks only``: clicks are sent, zeros are not, and there is no timeout.
* ``default``: clicks are sent; the default reward is 0 after a timeout of five minutes. This is healthy.
* ``all reported``: clicks and zeros are sent. This is healthy.

``--table calibration`` is about the check of the predictions alone: how often it fails if they are right, and
how soon it fails if they are twice or half of what they should be. Conversions have a probability of 1%, 2%
or 6%, depending on the visitor. Revenue is that of a sale, which has the same probability: it is lognormal
(median 30, σ = 1) up to a declared maximum of 200 (mean 46), and otherwise zero.
"""

import argparse
import heapq
import math
import random
import statistics
from collections.abc import Iterator

import msgspec

from glcb._api.requests import Creation, DecisionRequest, ExperimentSettings, RewardItem
from glcb._api.responses import Decision
from glcb.service.core.experiment import Experiment
from glcb.service.core.open_decisions import OpenDecision
from glcb.service.core.records import SlotRecord
from glcb.service.core.tally import Tally
from glcb.service.core.vitals import MIN_DECISIONS
from glcb.service.views import health

_BROKEN = {"never": (), "clicks only": (1,)}
_HEALTHY = {"default": (1,), "all reported": (0, 1)}
_WITH_DEFAULT = ("never", "default")
_TIMEOUT, _DELAY, _EVERY = 300.0, 30.0, 20
_CALIBRATION_EVERY = 100


def simulate(pipeline: str, rate: float, seed: int) -> Iterator[Experiment]:
    """Yield an experiment after every 20 decisions, without end."""
    settings = ExperimentSettings(arms=["a", "b", "c", "d"], policy="linucb", seed=seed)
    if pipeline in _WITH_DEFAULT:
        settings.reward_timeout, settings.default_reward = _TIMEOUT, 0.0
    experiment, _ = Experiment.create(
        Creation(name="e", salt=str(seed), id_prefix="", settings=settings), 0.0
    )
    reported = (_BROKEN | _HEALTHY)[pipeline]
    rng, now, rewards = random.Random(seed), 0.0, list[tuple[float, str, int]]()
    while True:
        for _ in range(_EVERY):
            now += 1.0
            while rewards and rewards[0][0] <= now:
                at, decision_id, value = heapq.heappop(rewards)
                experiment.apply("reward", RewardItem(id=decision_id, value=value), at)
            context = {"country": rng.choice(["FR", "DE", "IT"]), "hour": rng.randrange(24)}
            if rng.random() < 0.7:
                context["age"] = rng.randint(18, 80)
            _, answer = experiment.apply("decide", DecisionRequest(context=context), now)
            assert isinstance(answer, bytes)
            decision, value = msgspec.json.decode(answer, type=Decision), int(rng.random() < rate)
            delay = rng.expovariate(1 / _DELAY)
            if value in reported and delay < _TIMEOUT:
                heapq.heappush(rewards, (now + delay, decision.id, value))
        yield experiment


def failed(experiment: Experiment) -> list[str]:
    """Return the names of the failed checks."""
    return [check.check for check in health.checks(experiment) if check.ok is False]


def settled_until_alarm(pipeline: str, rate: float, seed: int) -> int:
    """Return the number of settled decisions when a check of a broken pipeline first fails."""
    for experiment in simulate(pipeline, rate, seed):
        if failed(experiment):
            counts = experiment.bandit.counts
            return counts["decisions"] - counts["pending"]
    raise AssertionError("unreachable")


def has_false_alarm(pipeline: str, rate: float, decisions: int, seed: int) -> bool:
    """Return whether any check of a healthy pipeline fails at any time within this many decisions."""
    steps = zip(range(decisions // _EVERY), simulate(pipeline, rate, seed), strict=False)
    return any(failed(experiment) for _, experiment in steps)


_RATES, _LARGEST = (0.01, 0.02, 0.06), 200.0
_LOG_MEDIAN, _NORMAL = math.log(30), statistics.NormalDist()
_BOUND = math.log(_LARGEST) - _LOG_MEDIAN
_MEAN_AMOUNT = 30 * math.exp(0.5) * _NORMAL.cdf(_BOUND - 1) + _LARGEST * _NORMAL.cdf(-_BOUND)
REWARDS = ("conversions", "revenue")
FACTORS = (1.0, 2.0, 0.5)
"""What the predictions are multiplied by."""


def amount(rng: random.Random) -> float:
    """Return the revenue of a sale."""
    return min(rng.lognormvariate(_LOG_MEDIAN, 1.0), _LARGEST)


def decisions_until_biased(rewards: str, factor: float, decisions: int, seed: int) -> int | None:
    """Return the number of decisions when the check of the calibration first fails, or None."""
    rng, tally = random.Random(seed), Tally()
    unit, before = 1.0 if rewards == "conversions" else _MEAN_AMOUNT, 0.0
    for number in range(1, decisions + 1):
        rate = rng.choice(_RATES)
        value = float(rng.random() < rate)
        if value and rewards == "revenue":
            value = amount(rng)
        predicted = factor * rate * unit
        slot = SlotRecord("a", 1.0, 0.0, 1.0, [predicted], [1.0], True, None)
        tally.add_decision(number, [slot], False, ("a",), {})
        if number > MIN_DECISIONS:  # as in the service
            decision = OpenDecision("a", False, number, predicted, None)
            tally.blocks[-1].add_reward(number, decision, value, value != before)
        before = value
        if number % _CALIBRATION_EVERY == 0 and health.are_calibrated(tally) is False:
            return number
    return None


def print_calibration(runs: int, decisions: int) -> None:
    """Print how often and how soon the check of the calibration fails."""
    print(f"{runs} runs of {decisions:,} decisions, seeds from 0\n")
    print("| rewards | predictions | runs with an alarm | decisions until the alarm: median, 90% |")
    print("|:--|:--|--:|--:|")
    for rewards in REWARDS:
        for factor in FACTORS:
            found = [decisions_until_biased(rewards, factor, decisions, seed) for seed in range(runs)]
            times = sorted(one for one in found if one is not None)
            row = f"| {rewards} | × {factor:g} | {len(times) / runs:.1%} |"
            row += (
                f" {statistics.median(times):,.0f}, {times[int(0.9 * len(times))]:,} |" if times else " – |"
            )
            print(row, flush=True)


def print_rewards(runs: int, decisions: int) -> None:
    """Print how soon broken pipelines are noticed, and how often healthy ones fail."""
    print(f"{runs} runs each, seeds from 0\n")
    print("| broken pipeline | click rate | settled decisions until a check fails: median | maximum |")
    print("|:--|--:|--:|--:|")
    for pipeline in _BROKEN:
        found = [settled_until_alarm(pipeline, 0.05, seed) for seed in range(runs)]
        print(f"| {pipeline} | 5% | {statistics.median(found):.0f} | {max(found)} |", flush=True)
    print(f"\n| healthy pipeline | click rate | runs with a false alarm in {decisions:,} decisions |")
    print("|:--|--:|--:|")
    for pipeline in _HEALTHY:
        alarms = sum(has_false_alarm(pipeline, 0.01, decisions, seed) for seed in range(runs))
        print(f"| {pipeline} | 1% | {alarms / runs:.1%} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--table", choices=("rewards", "calibration"), default="rewards")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--decisions", type=int)
    arguments = parser.parse_args()
    if arguments.table == "calibration":
        print_calibration(arguments.runs, arguments.decisions or 12_000)
    else:
        print_rewards(arguments.runs, arguments.decisions or 3000)


if __name__ == "__main__":
    main()
