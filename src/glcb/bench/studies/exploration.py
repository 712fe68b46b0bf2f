"""What it costs to play other arms than the rule says, so that every arm has a known probability.

The tasks are those of the paper. Contexts are passed on as the task scales them, so that exploration is all
that differs.
"""

from dataclasses import dataclass
from typing import ClassVar

from glcb.bench.plan import PAPER_TASKS
from glcb.bench.studies.bandits import POLICY, bandit_for, through_bandit
from glcb.bench.studies.base import Findings, Workplace
from glcb.bench.studies.pairs import Pair, drawing_of, table_of
from glcb.bench.studies.playing import PlayingStudy, playable, plays
from glcb.bench.studies.registry import register
from glcb.explore.probabilities import ExplorationMode
from glcb.tasks import get

SHARE = 0.05
EXPLORATION_MODES: tuple[ExplorationMode, ...] = ("gap", "uniform")


@register
@dataclass(frozen=True, kw_only=True)
class Exploration(PlayingStudy):
    """Play the paper's tasks without and with exploration."""

    name: ClassVar[str] = "exploration"
    question: ClassVar[str] = "What does it cost to give every arm a probability?"

    def carry_out(self, place: Workplace) -> Findings:
        """Play every task with every seed: by the rule alone, and with both ways to explore."""
        here = playable(PAPER_TASKS)
        pairs = {
            (task, exploration_mode): Pair(task, exploration_mode, [], [])
            for task in here.tasks
            for exploration_mode in EXPLORATION_MODES
        }
        for seed, name in plays(place, self.seeds, here.tasks):
            task = get(name)
            stream = task.stream(seed, self.steps)
            before = through_bandit(bandit_for(task, seed), stream.contexts, stream.rewards)
            for exploration_mode in EXPLORATION_MODES:
                exploring = bandit_for(task, seed, SHARE, exploration_mode)
                pairs[name, exploration_mode].before.append(before)
                pairs[name, exploration_mode].after.append(
                    through_bandit(exploring, stream.contexts, stream.rewards)
                )
        remarks = [
            f"With probability {SHARE:g} another arm is played than the rule of {POLICY} says: by gap, "
            "rather one whose score is close to the best, or uniformly. No arm is ever left out."
        ]
        found = list(pairs.values())
        return Findings(
            [
                table_of(
                    found,
                    "Reward without and with exploration",
                    "exploration_mode",
                    "exploration 0",
                    f"{SHARE:g}",
                )
            ],
            [*remarks, *here.remarks],
            drawing_of(found, f"Exploration {SHARE:g}", "reward, % of that without exploration"),
        )
