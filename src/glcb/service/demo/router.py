"""Prompts go to one of three language models; the reward is the quality of the answer less its price."""

from random import Random

from glcb._api.requests import Settings
from glcb.service.demo.world import Context, World

_SKILL = {"small": 0.3, "medium": 0.5, "large": 0.95}
"""How difficult a prompt may be."""
_PRICE = {"small": 0.02, "medium": 0.1, "large": 0.5}
"""Of a prompt of 500 words, in the currency of quality."""


def _visitor(rng: Random) -> Context:
    kind = rng.choices(["chat", "summary", "code", "maths"], [3, 3, 3, 3])[0]
    return {
        "kind": kind,
        "words": min(2000, 5 + int(rng.lognormvariate(5 if kind == "summary" else 3.5, 1.0))),
        "language": rng.choices(["en", "de", "ja"], [6, 2, 1])[0],
        "asks for steps": rng.random() < (0.6 if kind == "maths" else 0.15),
    }


def _outcome(rng: Random, prompt: Context, arm: str, era: int) -> float:
    skill, price = _SKILL.get(arm, 0.5), _PRICE.get(arm, 0.1)
    difficulty = {"chat": 0.2, "summary": 0.4, "code": 0.75, "maths": 0.8}[prompt["kind"]]
    difficulty += 0.15 * prompt["asks for steps"] + 0.1 * (prompt["language"] == "ja")
    if era and arm == "medium" and prompt["kind"] == "code":  # its new version can program
        skill += 0.4
    quality = 0.95 - 2 * max(0.0, difficulty - skill) + rng.gauss(0, 0.05)
    cost = price * (0.5 + prompt["words"] / 1000)
    return float(min(1.0, max(0.0, quality - cost)))


WORLD = World(
    name="model-router",
    settings=Settings(
        arms=list(_SKILL), rewards=(0.0, 1.0), reward_timeout=60.0, half_life=1500, holdout=0.2, seed=3
    ),
    visitor=_visitor,
    outcome=_outcome,
    era=800,
    delay=2.0,
    lost=0.01,
)
