"""The theory made visible, on a task whose expected rewards Q(x, a) are known.

The paper proves what happens in the end. This study looks at the first 200,000 steps: how close the values
come to Q, how often another arm than the best is played, what that costs, whether every arm is still tried,
and whether a larger network comes closer to Q.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np
from rich.table import Table

from glcb._types import Float64
from glcb.bench.figures import band, figure
from glcb.bench.studies.base import Findings, Study, Workplace, spread
from glcb.bench.studies.course import REGIONS, Course, bandit_course, taught_course
from glcb.bench.studies.registry import register
from glcb.policies.glcb.paper import GLCBPaper
from glcb.policies.glcb.policy import GLCB
from glcb.policies.glcb.settings import PAPER_BOUNDED, SettingChanges
from glcb.tasks.smooth import Smooth

_TASK = Smooth()
_GAP = 0.3
"""How much worse an arm is that remarks take as their example."""


class Variant(NamedTuple):
    """GLCB with some of its settings changed."""

    name: str
    settings: SettingChanges

    def bandit(self, seed: int) -> GLCB:
        """Return a new bandit for the task."""
        return GLCBPaper(_TASK.arms, _TASK.features, rewards=_TASK.rewards, seed=seed, **self.settings)


_PAPER = Variant("paper's settings", {})
# The paper itself decays the rate this slowly where rewards are continuous.
_SLOWER = Variant("slower decay", {"learning_rate_decay": PAPER_BOUNDED.learning_rate_decay})
_LARGER_BONUS = Variant("larger bonus", {**_SLOWER.settings, "bonus_scale": 1.0})

PLAYING = (_PAPER, _SLOWER, _LARGER_BONUS)
"""These decide for themselves."""

TAUGHT = tuple(
    tuple(
        Variant(f"{'–'.join(map(str, layers))} units", {**base.settings, "layers": layers})
        for layers in ((4, 1), (20, 4, 1), (100, 10, 1))
    )
    for base in (_PAPER, _SLOWER)
)
"""These learn all arms in turn: networks of growing size, once for each way of decaying the rate."""

Courses = list[Course]
"""The same variant with one seed after the other."""


class Measure(NamedTuple):
    """What a course is judged by."""

    name: str
    title: str
    of: Callable[[Course], Float64]
    """Returns one number per mark."""
    form: str
    """How the number is written."""
    grows: bool
    """Which way the theory says that it goes."""


MEASURES = (
    Measure("|value − Q|", "Distance of the values from Q", attrgetter("errors"), ".3f", grows=False),
    Measure("sub-optimal", "Share of sub-optimal plays", attrgetter("suboptimal"), ".1%", grows=False),
    Measure("regret / t", "Regret per step", attrgetter("regret"), ".3f", grows=False),
    Measure("pseudocount", "Least pseudocount", attrgetter("pseudocounts"), ".1f", grows=True),
)


@register
@dataclass(frozen=True, kw_only=True)
class Convergence(Study):
    """Follow GLCB for a long time on the smooth task."""

    name: ClassVar[str] = "convergence"
    question: ClassVar[str] = "Does GLCB do what the theory says of the end, and how soon?"

    seeds: int = 3
    steps: int = 200_000

    @classmethod
    def quick(cls) -> Self:
        """Return a form of some thousand steps."""
        return cls(seeds=2, steps=5_000)

    def carry_out(self, place: Workplace) -> Findings:
        """Play and teach all variants with all seeds."""
        total = self.seeds * self.steps * (len(PLAYING) + sum(map(len, TAUGHT)))
        done = 0

        def tick(steps: int) -> None:
            nonlocal done
            done += steps
            place.progress(done, total)

        def courses(variant: Variant, follow: Callable[..., Course]) -> Courses:
            return [follow(variant.bandit(seed), _TASK, seed, self.steps, tick) for seed in range(self.seeds)]

        playing = [courses(variant, bandit_course) for variant in PLAYING]
        taught = [[courses(variant, taught_course) for variant in sizes] for sizes in TAUGHT]
        return Findings(
            [_playing_table(playing), _taught_table(taught)],
            [*_playing_remarks(playing), *_taught_remarks(taught)],
            lambda path: _draw(path, playing, taught),
        )


def _playing_table(playing: list[Courses]) -> Table:
    one = playing[0][0]
    table = Table(title=f"GLCB plays: mean ± s.e. of {len(playing[0])} seeds")
    table.add_column("measure")
    for heading in ("step", *(variant.name for variant in PLAYING)):
        table.add_column(heading, justify="right")
    for measure in MEASURES:
        for at in dict.fromkeys((0, _tenth(one), len(one.marks) - 1)):
            cells = [spread([measure.of(course)[at] for course in own], measure.form) for own in playing]
            table.add_row(measure.name if at == 0 else "", f"{one.marks[at]:,}", *cells)
        table.add_section()
    for quarter, at in (("1st quarter", 0), ("4th quarter", -1)):
        cells = [spread([course.tried[at] for course in own], ".0%") for own in playing]
        table.add_row("pairs tried" if at == 0 else "", quarter, *cells)
    return table


def _tenth(course: Course) -> int:
    """Return which mark is nearest to a tenth of the run."""
    return int(np.argmin(np.abs(course.marks - course.marks[-1] / 10)))


def _taught_table(taught: list[list[Courses]]) -> Table:
    last = int(taught[0][0][0].marks[-1])
    seeds = len(taught[0][0])
    table = Table(title=f"Distance of values from Q, all arms taught in turn: mean ± s.e., {seeds} seeds")
    table.add_column(f"after {last:,} steps")
    for base in (_PAPER, _SLOWER):
        table.add_column(base.name, justify="right")
    for row, variant in enumerate(TAUGHT[0]):
        cells = [spread([course.errors[-1] for course in sizes[row]]) for sizes in taught]
        table.add_row(variant.name, *cells)
    return table


def _playing_remarks(playing: list[Courses]) -> list[str]:
    one = playing[0][0]
    last = int(one.marks[-1])
    plays = last // len(_TASK.arms)
    decay = "; ".join(
        f"{total:.1f}, of which {late:.1f} in the last half ({variant.name})"
        for variant in (_PAPER, _SLOWER)
        for total, late in (_step_sizes(variant, plays),)
    )
    paper, larger = (variant.bandit(0).settings for variant in (_PAPER, _LARGER_BONUS))
    reach = ", ".join(
        f"{settings.bonus_scale**2 * math.log(last) / _GAP**2:.3g} for C = {settings.bonus_scale:g}"
        for settings in (paper, larger)
    )
    return [
        f"{_SLOWER.name}: learning_rate_decay {larger.learning_rate_decay:g} instead of "
        f"{paper.learning_rate_decay:g}. {_LARGER_BONUS.name}: that, and bonus_scale {larger.bonus_scale:g} "
        f"instead of {paper.bonus_scale:g}.",
        f"By the means from t = {one.marks[_tenth(one)]:,} to {last:,}: "
        + " ".join([*(_verdict(measure, playing) for measure in MEASURES), _verdict_on_trying(playing)]),
        "The distance contains what the network cannot represent; the theory lets only the rest go to 0.",
        f"The learning rate decays with the plays of the arm. Over {plays:,} plays its steps add up to "
        f"{decay}; a half-space gets only the part of the plays that fall into it.",
        f"At t = {last:,} an arm that seems {_GAP} worse than the best is tried again only while its "
        f"pseudocount is below C² ln t / {_GAP}²: {reach}.",
        f"Pairs are those of {REGIONS} × {REGIONS} regions of contexts with {len(_TASK.arms)} arms. Contexts "
        "that share gates share counts: a pseudocount can grow in a region where the arm is not played, and "
        "the bonus shrinks with it. That the smallest pseudocount grows without end is all the theory says.",
    ]


def _verdict(measure: Measure, playing: list[Courses]) -> str:
    def moved(own: Courses) -> float:
        return float(np.mean([measure.of(course)[-1] - measure.of(course)[_tenth(course)] for course in own]))

    return verdict(
        f"{measure.title} {'grows' if measure.grows else 'falls'}",
        [moved(own) > 0 if measure.grows else moved(own) < 0 for own in playing],
    )


def _verdict_on_trying(playing: list[Courses]) -> str:
    return verdict(
        "Every arm is tried in every region in every quarter",
        [all(course.tried.min() == 1 for course in own) for own in playing],
    )


def verdict(claim: str, holds: list[bool]) -> str:
    """Say with which of the variants that play a claim holds.

    >>> verdict("It rains", [False, True, True])
    'It rains: with slower decay, larger bonus only.'
    """
    if all(holds):
        return f"{claim}: yes."
    names = [variant.name for variant, held in zip(PLAYING, holds, strict=True) if held]
    return f"{claim}: with {', '.join(names)} only." if names else f"{claim}: no."


def _taught_remarks(taught: list[list[Courses]]) -> list[str]:
    remarks = []
    for base, sizes in zip((_PAPER, _SLOWER), taught, strict=True):
        errors = [_mean(own, -1) for own in sizes]
        better = all(larger < smaller for smaller, larger in pairwise(errors))
        found = "every larger network" if better else "not every larger network"
        remarks.append(f"After equal data, with {base.name}: {found} is closer to Q.")
    return remarks


def _mean(courses: Courses, at: int) -> float:
    return float(np.mean([course.errors[at] for course in courses]))


def _step_sizes(variant: Variant, plays: int) -> tuple[float, float]:
    """Return the sum of the step sizes of an arm's first ``plays`` plays, and of the last half of them."""
    settings = variant.bandit(0).settings
    rates = settings.learning_rate / (1 + settings.learning_rate_decay * np.arange(plays))
    return float(rates.sum()), float(rates[plays // 2 :].sum())


def _draw(path: Path, playing: list[Courses], taught: list[list[Courses]]) -> None:
    with figure(path, width=13, height=7.5, columns=3, rows=2) as axes:
        for ax, measure in zip(axes, MEASURES, strict=False):
            for variant, own in zip(PLAYING, playing, strict=True):
                band(ax, own[0].marks, [measure.of(course) for course in own], label=variant.name)
            ax.set(title=measure.title, xlabel="step t", xscale="log")
        for ax, base, sizes in zip(axes[4:], (_PAPER, _SLOWER), taught, strict=True):
            for variant, own, color in zip(TAUGHT[0], sizes, ("0.7", "0.45", "black"), strict=True):
                errors = [course.errors for course in own]
                band(ax, own[0].marks, errors, label=variant.name, color=color)
            ax.set(title=f"Distance by size of network: {base.name}", xlabel="step t", xscale="log")
        for ax in axes[2:4]:
            ax.set_yscale("log")
        distances = (axes[0], *axes[4:])
        highest = max(ax.get_ylim()[1] for ax in distances)
        for ax in (axes[1], *distances):
            ax.set_ylim(0, None if ax is axes[1] else highest)
        axes[0].legend(frameon=False, loc="lower left", title=f"mean ± s.e. of {len(playing[0])} seeds")
        axes[4].legend(frameon=False, loc="lower left", title="all arms taught in turn")
