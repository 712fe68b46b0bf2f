"""What a memory that fades brings when the world changes, and what it costs when it does not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from rich.table import Table

from glcb._types import Float64
from glcb.bench.figures import band, figure
from glcb.bench.run import Record
from glcb.bench.simulation import simulate
from glcb.bench.statistics import differences
from glcb.bench.studies.base import Findings, Workplace, spread
from glcb.bench.studies.playing import PlayingStudy, playable, plays
from glcb.bench.studies.records import records_of, totals
from glcb.bench.studies.recovery import WINDOW, Course, in_windows, steps_until_back
from glcb.bench.studies.registry import register
from glcb.policies import registry
from glcb.tasks import get
from glcb.tasks.base import Task
from glcb.tasks.smooth import Smooth

CHANGING = ("smooth-switch", "smooth-drift", "smooth-newcomer", "statlog-switch")
"""All of them change halfway."""
STILL = ("smooth", "statlog", "covertype")


@dataclass(frozen=True)
class Variant:
    """A policy, and after how many plays all its evidence counts half."""

    policy: str
    half_life: int | None

    @property
    def title(self) -> str:
        """How tables and pictures call it."""
        return f"{self.policy}, {'for ever' if self.half_life is None else f'{self.half_life:,}'}"

    @property
    def settings(self) -> dict[str, Any]:
        """What differs from the policy's own settings."""
        return {} if self.half_life is None else {"half_life": self.half_life}


GLCBS = (Variant("glcb", None), Variant("glcb", 1000), Variant("glcb", 4000))
VARIANTS = (*GLCBS, Variant("linucb", None), Variant("linucb", 4000))

Courses = Mapping[tuple[str, Variant], Sequence[Course]]
"""The course of every seed, by task and variant."""
Still = Mapping[tuple[str, Variant], Sequence[Record]]


@register
@dataclass(frozen=True, kw_only=True)
class Drift(PlayingStudy):
    """Play tasks that change halfway, and tasks that do not, with memories of several lengths.

    By default halfway is no multiple of any memory, so that none is lucky enough to fade at that moment.
    """

    name: ClassVar[str] = "drift"
    question: ClassVar[str] = "Does a fading memory help when the world changes, and what does it cost?"

    seeds: int = 10
    steps: int = 21_000

    @classmethod
    def quick(cls) -> Self:
        """Return a form of some thousand steps."""
        return cls(seeds=1, steps=9000)

    def carry_out(self, place: Workplace) -> Findings:
        """Carry out the runs on tasks that stay as they are, then play those that change."""
        here = playable((*STILL, *CHANGING))
        runs = {
            (task, variant): self.runs(task, variant.policy, variant.settings)
            for task in here.tasks
            if task in STILL
            for variant in GLCBS
        }
        records = records_of(runs.values(), place)
        still = {at: [records[run.key] for run in group] for at, group in runs.items()}
        courses = self._play([task for task in here.tasks if task in CHANGING], place)
        remarks = [
            f"Back is where the mean of {WINDOW} steps reaches 90 % of what it was before the change, as a "
            "share of the best possible: the median of the seeds that come back.",
            "Where expected rewards are known (smooth), rewards are the expected ones of the arms played.",
            *here.remarks,
        ]
        return Findings(
            [_change_table(courses), _cost_table(still)], remarks, lambda path: _draw(path, courses)
        )

    def _play(self, tasks: Sequence[str], place: Workplace) -> Courses:
        courses: dict[tuple[str, Variant], list[Course]] = {
            (task, variant): [] for task in tasks for variant in VARIANTS
        }
        for seed, (task, variant) in plays(place, self.seeds, courses):
            courses[task, variant].append(follow(get(task), variant, seed, self.steps))
        return courses


def follow(task: Task, variant: Variant, seed: int, steps: int) -> Course:
    """Let a policy play a task; return what it earned at every step, and what the best arm would have."""
    stream = task.stream(seed, steps)
    make = registry.get(variant.policy).make
    policy = make(task.arms, task.features, rewards=task.rewards, seed=seed, **variant.settings)
    arms = simulate(policy, stream).arms
    table: Float64 = task.course(stream.contexts) if isinstance(task, Smooth) else stream.rewards
    return Course(table[np.arange(stream.steps), arms], table.max(axis=1))


def _change_table(courses: Courses) -> Table:
    seeds = len(next(iter(courses.values())))
    table = Table(title=f"Reward per step on tasks that change halfway: mean ± s.e. of {seeds} seeds")
    table.add_column("task")
    table.add_column("policy, memory")
    for head in ("before", "after", "steps until back", "seeds back"):
        table.add_column(head, justify="right")
    for (task, variant), own in courses.items():
        back = [steps_until_back(course) for course in own]
        returned = [steps for steps in back if steps is not None]
        table.add_row(
            task,
            variant.title,
            spread([course.before.mean() for course in own]),
            spread([course.after.mean() for course in own]),
            _typical(returned),
            f"{len(returned)} of {seeds}",
            end_section=variant == VARIANTS[-1],
        )
    return table


def _typical(steps: Sequence[int]) -> str:
    if not steps:
        return "–"
    median = float(np.median(steps))
    return f"{median:,.0f}" if median > WINDOW else f"≤ {WINDOW}"


def _cost_table(still: Still) -> Table:
    tasks = list(dict.fromkeys(task for task, _ in still))
    seeds = len(next(iter(still.values())))
    table = Table(title=f"Reward on tasks that stay as they are: mean ± s.e. of {seeds} seeds")
    table.add_column("policy, memory")
    for task in tasks:
        table.add_column(task, justify="right")
        table.add_column("to for ever", justify="right")
    for variant in GLCBS:
        cells = []
        for task in tasks:
            own = totals(still[task, variant])
            gained = differences(own, totals(still[task, GLCBS[0]]))
            cells += [spread(own, ",.0f"), "" if variant.half_life is None else spread(gained, "+,.0f")]
        table.add_row(variant.title, *cells)
    return table


def _draw(path: Path, courses: Courses) -> None:
    tasks = list(dict.fromkeys(task for task, _ in courses))
    with figure(
        path, width=12, height=3.6 * -(-len(tasks) // 2), columns=2, rows=-(-len(tasks) // 2)
    ) as axes:
        for ax, task in zip(axes, tasks, strict=False):
            for number, variant in enumerate(VARIANTS):
                curves = np.array([in_windows(course) for course in courses[task, variant]])
                steps = WINDOW * (np.arange(curves.shape[1]) + 0.5)
                style = "--" if variant.policy == "linucb" else "-"
                band(ax, steps, curves, ls=style, color=f"C{number}", linewidth=1.2, label=variant.title)
            ax.axvline(courses[task, VARIANTS[0]][0].change, color="0.5", linewidth=0.8)
            ax.set(title=task, xlabel="step", ylabel=f"reward, share of the best, per {WINDOW} steps")
        axes[0].legend(frameon=False, fontsize=8)
