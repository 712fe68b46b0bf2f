"""Ablation: the default settings of GLCB with one part removed, on every task."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from rich.table import Table

from benchmarks.studies.stored import StoredResults, available_tasks
from glcb._types import Rewards, reward_range
from glcb.bench import simulate
from glcb.bench.plan import PAPER_TASKS
from glcb.bench.statistics import format_mean, paired_differences
from glcb.policies import registry
from glcb.policies.glcb.settings import PAPER_BINARY
from glcb.tasks import get

STEPS = 5000
TASKS = (*PAPER_TASKS, "mushroom", "linear", "sparse-linear")
BOUNDED_ONLY = ("initialization", "leaf_values", "switching_rate")
"""Settings that differ from the paper's only for bounded rewards."""

DEFAULT = "default"
VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "paper settings": {},
    "networks alone": {"experts": ()},
    "no random features": {"experts": ("linear",)},
    "no regression on the context": {"experts": ("fourier",)},
    "gradient steps everywhere": {"optimizer": "gradient"},
    "single rate: 0.1": {"rate_factors": (0.1,)},
    "single rate: 1": {"rate_factors": (1.0,)},
    "small ridge only": {"ridges": (0.01,)},
    "large ridge only": {"ridges": (10.0,)},
    "4 hyperplanes": {"hyperplanes": 4},
    "8 hyperplanes": {"hyperplanes": 8},
    "hyperplanes near the center": {"bias_scale": PAPER_BINARY.bias_scale},
    "fast switching": {"switching_rate": PAPER_BINARY.switching_rate},
    "no damping": {"damping": 0.0},
    "bonus of 0.03 × range": {"bonus_unit": "reward"},
    "weights initialized from the inputs": {"initialization": "inputs"},
    "bin values are midpoints": {"leaf_values": "midpoint"},
}
"""Changed settings by title. The paper's settings are a separate policy."""


def settings_of(variant: str, rewards: Rewards) -> dict[str, Any]:
    """Return the changes for a kind of reward; a bonus in units of reward is scaled by the range."""
    low, high = reward_range(rewards)
    changes = {
        name: value
        for name, value in VARIANTS[variant].items()
        if rewards != "binary" or name not in BOUNDED_ONLY
    }
    if "bonus_unit" in changes:
        changes["bonus_scale"] = PAPER_BINARY.bonus_scale * (high - low)
    return changes


def tables(stored: StoredResults, seeds: int, steps: int) -> Iterator[Table]:
    """Yield the rewards of every variant on every task, and their differences from the default.

    Where a change only affects bounded rewards, tasks with binary rewards show the default.
    """
    tasks = available_tasks(TASKS)
    totals = {
        (variant, task): [total(stored, variant, task, seed, steps) for seed in range(seeds)]
        for variant in VARIANTS
        for task in tasks
    }
    rewards = Table("variant", *tasks, title=f"Reward: mean ± s.e. of {seeds} seeds")
    gains = Table("variant", *tasks, title="Paired difference from the default: mean ± s.e.")
    for variant in VARIANTS:
        own = [totals[variant, task] for task in tasks]
        differences = [paired_differences(totals[variant, task], totals[DEFAULT, task]) for task in tasks]
        rewards.add_row(variant, *(format_mean(each, ",.0f") for each in own))
        gains.add_row(variant, *(format_mean(each, "+,.0f") for each in differences))
    yield rewards
    yield gains


def total(stored: StoredResults, variant: str, task: str, seed: int, steps: int) -> float:
    """Return the total reward of a run."""
    policy = "glcb-paper" if variant == "paper settings" else "glcb"
    settings = settings_of(variant, get(task).rewards)
    return stored.get(
        policy, f"{task} {steps} {seed} {settings}", partial(_run, policy, task, seed, steps, settings)
    )


def _run(policy: str, name: str, seed: int, steps: int, settings: dict[str, Any]) -> float:
    task = get(name)
    create = registry.get(policy).create
    made = create(task.arms, task.features, rewards=task.rewards, seed=seed, **settings)
    return simulate(made, task.stream(seed, steps)).total
