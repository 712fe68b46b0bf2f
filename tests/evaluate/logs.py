"""Logs of a small problem whose values are known."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

ARMS = ("sports", "news", "games")
AGES = tuple(np.round(np.linspace(0.05, 0.95, 10), 2).tolist())


def mean_reward(age: float, arm: str) -> float:
    return {"sports": 0.2 + 0.6 * age, "news": 0.8 - 0.6 * age, "games": 0.4}[arm]


def value(policy: Callable[[float, str], float]) -> float:
    """Return the true value of a policy, given as the probability of an arm at an age."""
    return float(np.mean([sum(policy(age, arm) * mean_reward(age, arm) for arm in ARMS) for age in AGES]))


def rule(context: dict[str, float]) -> str:
    return "sports" if context["age"] > 0.5 else "news"


RULE_VALUE = value(lambda age, arm: float(arm == ("sports" if age > 0.5 else "news")))
UNIFORM_VALUE = value(lambda age, arm: 1 / 3)


def logging_probability(age: float, arm: str) -> float:
    """Return the probability with which the log chooses an arm: better arms are more likely."""
    return mean_reward(age, arm) / sum(mean_reward(age, each) for each in ARMS)


def rows(count: int, seed: int = 0, uniform: bool = False) -> list[dict[str, object]]:
    """Return logged decisions, one dictionary each."""
    rng = np.random.default_rng(seed)
    result: list[dict[str, object]] = []
    for _ in range(count):
        age = float(rng.choice(AGES))
        shares = np.array([1 / 3 if uniform else logging_probability(age, arm) for arm in ARMS])
        chosen = int(rng.choice(len(ARMS), p=shares))
        reward = float(rng.random() < mean_reward(age, ARMS[chosen]))
        result.append(
            {
                "context": {"age": age},
                "arm": ARMS[chosen],
                "reward": reward,
                "propensity": float(shares[chosen]),
            }
        )
    return result


def write(path: Path, lines: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
