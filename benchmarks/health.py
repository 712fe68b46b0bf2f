"""How soon health checks detect a broken reward pipeline, and how often they fail without cause.

    python -m benchmarks.health --runs 200

A visitor arrives every second and clicks with a fixed probability, after half a minute on average. The checks
are evaluated after every 20 decisions. Four pipelines send the rewards:

* ``never``: no reward is ever sent; the default reward is 0 after a timeout of five minutes.
* ``clicks only``: clicks are sent, zeros are not, and there is no timeout.
* ``default``: clicks are sent; the default reward is 0 after a timeout of five minutes. This is healthy.
* ``all reported``: clicks and zeros are sent. This is healthy.
"""

import argparse
import heapq
import random
import statistics
from collections.abc import Iterator

import msgspec

from glcb._api.requests import Creation, DecisionRequest, ExperimentSettings, RewardItem
from glcb._api.responses import Decision
from glcb.service.core.experiment import Experiment
from glcb.service.views import health

_BROKEN = {"never": (), "clicks only": (1,)}
_HEALTHY = {"default": (1,), "all reported": (0, 1)}
_WITH_DEFAULT = ("never", "default")
_TIMEOUT, _DELAY, _EVERY = 300.0, 30.0, 20


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


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--decisions", type=int, default=3000)
    arguments = parser.parse_args()
    print(f"{arguments.runs} runs each, seeds from 0\n")
    print("| broken pipeline | click rate | settled decisions until a check fails: median | maximum |")
    print("|:--|--:|--:|--:|")
    for pipeline in _BROKEN:
        found = [settled_until_alarm(pipeline, 0.05, seed) for seed in range(arguments.runs)]
        print(f"| {pipeline} | 5% | {statistics.median(found):.0f} | {max(found)} |", flush=True)
    print(
        f"\n| healthy pipeline | click rate | runs with a false alarm in {arguments.decisions:,} decisions |"
    )
    print("|:--|--:|--:|")
    for pipeline in _HEALTHY:
        alarms = sum(
            has_false_alarm(pipeline, 0.01, arguments.decisions, seed) for seed in range(arguments.runs)
        )
        print(f"| {pipeline} | 1% | {alarms / arguments.runs:.1%} |", flush=True)


if __name__ == "__main__":
    main()
