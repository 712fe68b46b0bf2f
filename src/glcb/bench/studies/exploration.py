"""What it costs to play other arms than the rule says, so that every arm has a known probability.

The tasks are those of the paper. Contexts are passed on as the task scales them, so that exploration is all
that differs.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from glcb.bandit import Bandit
from glcb.bench.experiment import PAPER_TASKS, Experiment, without_missing_data
from glcb.bench.studies.base import Findings, Study, Workplace
from glcb.bench.studies.pairs import Pair, drawing_of, table_of, through_bandit
from glcb.bench.studies.registry import register
from glcb.explore.probabilities import Spread
from glcb.tasks import get
from glcb.tasks.base import Task

SHARE = 0.05
SPREADS: tuple[Spread, ...] = ("gap", "uniform")
POLICY = "glcb"


@register
@dataclass(frozen=True, kw_only=True)
class Exploration(Study):
    """Play the paper's tasks without and with exploration."""

    name: ClassVar[str] = "exploration"
    question: ClassVar[str] = "What does it cost to give every arm a probability?"

    seeds: int = 20
    steps: int = 5000

    @classmethod
    def quick(cls) -> Self:
        """Return a form of some hundred steps."""
        return cls(seeds=2, steps=500)

    def carry_out(self, place: Workplace) -> Findings:
        """Play every task with every seed: by the rule alone, and with both ways to explore."""
        present, absent = without_missing_data(Experiment(PAPER_TASKS, (POLICY,), self.seeds, self.steps))
        pairs = {(task, spread): Pair(task, spread, [], []) for task in present.tasks for spread in SPREADS}
        total = self.seeds * len(present.tasks)
        for seed in range(self.seeds):
            for done, name in enumerate(present.tasks):
                place.progress(seed * len(present.tasks) + done, total)
                task = get(name)
                stream = task.stream(seed, self.steps)
                rule = bandit_for(task, seed, 0.0, SPREADS[0])
                before = through_bandit(rule, stream.contexts, stream.rewards)
                for spread in SPREADS:
                    exploring = bandit_for(task, seed, SHARE, spread)
                    pairs[name, spread].before.append(before)
                    pairs[name, spread].after.append(
                        through_bandit(exploring, stream.contexts, stream.rewards)
                    )
        place.progress(total, total)
        remarks = [
            f"With probability {SHARE:g} another arm is played than the rule of {POLICY} says: by gap, "
            "rather one whose score is close to the best, or uniformly. No arm is ever left out."
        ]
        if absent:
            remarks.append(f"Left out, their data is not here (`glcb data list`): {', '.join(absent)}.")
        found = list(pairs.values())
        return Findings(
            [table_of(found, "Reward without and with exploration", "spread", "exploration 0", f"{SHARE:g}")],
            remarks,
            drawing_of(found, f"Exploration {SHARE:g}", "reward, % of that without exploration"),
        )


def bandit_for(task: Task, seed: int, share: float, spread: Spread) -> Bandit:
    """Return a bandit that takes the contexts of ``task`` as they are."""
    return Bandit(
        task.arms,
        policy=POLICY,
        rewards=task.rewards,
        exploration=share,
        spread=spread,
        schema={str(feature): (0.0, 1.0) for feature in range(task.features)},
        reserve=0,
        seed=seed,
    )
