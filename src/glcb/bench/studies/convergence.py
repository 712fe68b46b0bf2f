"""The paper's convergence theory, checked on a task with known expected rewards Q(x, a).

The paper proves asymptotic results. This study covers the first 200,000 steps: the error of the values, the
share of sub-optimal decisions, the regret, whether every arm is still chosen everywhere, and whether a larger
network has a smaller error.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from rich.table import Table

from glcb._arrays import Float64
from glcb.bench.figures import band, figure
from glcb.bench.statistics import format_mean
from glcb.bench.studies.base import Progress, Study, StudyResult
from glcb.bench.studies.learning_curve import REGIONS, LearningCurve, follow_policy, follow_round_robin
from glcb.policies.glcb.paper import GLCBPaper
from glcb.policies.glcb.policy import GLCB
from glcb.policies.glcb.settings import PAPER_BOUNDED
from glcb.tasks.smooth import Smooth

_TASK = Smooth()
_GAP = 0.3
"""Gap of the sub-optimal arm used as an example in the remarks."""


class ConvergenceVariant(NamedTuple):
    """GLCB with changed settings."""

    name: str
    settings: dict[str, Any]

    def make(self, seed: int) -> GLCB:
        """Return a new policy for the task."""
        return GLCBPaper(_TASK.arms, _TASK.features, rewards=_TASK.rewards, seed=seed, **self.settings)


_PAPER = ConvergenceVariant("paper settings", {})
# The decay that the paper uses for bounded rewards.
_SLOWER = ConvergenceVariant("slower decay", {"learning_rate_decay": PAPER_BOUNDED.learning_rate_decay})
_LARGER_BONUS = ConvergenceVariant("larger bonus", {**_SLOWER.settings, "bonus_scale": 1.0})

DECIDING = (_PAPER, _SLOWER, _LARGER_BONUS)
"""Variants that make their own decisions."""

ROUND_ROBIN = tuple(
    tuple(
        ConvergenceVariant(f"{'–'.join(map(str, layers))} units", {**base.settings, "layers": layers})
        for layers in ((4, 1), (20, 4, 1), (100, 10, 1))
    )
    for base in (_PAPER, _SLOWER)
)
"""Variants that are trained on all arms in turn: networks of increasing size, for both decays."""

Curves = list[LearningCurve]
"""One curve per seed of the same variant."""


class Measure(NamedTuple):
    """A measured quantity."""

    name: str
    title: str
    of: Callable[[LearningCurve], Float64]
    """Returns one value per checkpoint."""
    form: str
    """Format of the value."""
    grows: bool
    """Whether the theory predicts growth; otherwise decrease."""


MEASURES = (
    Measure("|value − Q|", "Error of the values", attrgetter("errors"), ".3f", grows=False),
    Measure("sub-optimal", "Share of sub-optimal decisions", attrgetter("suboptimal"), ".1%", grows=False),
    Measure("regret / t", "Regret per step", attrgetter("regret"), ".3f", grows=False),
    Measure("pseudocount", "Smallest pseudocount", attrgetter("pseudocounts"), ".1f", grows=True),
)


@dataclass(frozen=True, kw_only=True)
class Convergence(Study):
    """Follow GLCB for many steps on the smooth task."""

    name: ClassVar[str] = "convergence"
    question: ClassVar[str] = "Does GLCB converge as the theory predicts, and how fast?"

    seeds: int = 3
    steps: int = 200_000

    @classmethod
    def quick(cls) -> Self:
        """Return a version with a few thousand steps."""
        return cls(seeds=2, steps=5_000)

    def run(self, progress: Progress) -> StudyResult:
        """Run all variants with all seeds."""
        total = self.seeds * self.steps * (len(DECIDING) + sum(map(len, ROUND_ROBIN)))
        done = 0

        def tick(steps: int) -> None:
            nonlocal done
            done += steps
            progress(done, total)

        def curves(variant: ConvergenceVariant, follow: Callable[..., LearningCurve]) -> Curves:
            return [follow(variant.make(seed), _TASK, seed, self.steps, tick) for seed in range(self.seeds)]

        deciding = [curves(variant, follow_policy) for variant in DECIDING]
        trained = [[curves(variant, follow_round_robin) for variant in sizes] for sizes in ROUND_ROBIN]
        return StudyResult(
            [_deciding_table(deciding), _trained_table(trained)],
            [*_deciding_remarks(deciding), *_trained_remarks(trained)],
            lambda path: _draw(path, deciding, trained),
        )


def _deciding_table(deciding: list[Curves]) -> Table:
    one = deciding[0][0]
    table = Table(title=f"GLCB decides: mean ± s.e. of {len(deciding[0])} seeds")
    table.add_column("measure")
    for heading in ("step", *(variant.name for variant in DECIDING)):
        table.add_column(heading, justify="right")
    for measure in MEASURES:
        for at in dict.fromkeys((0, _tenth(one), len(one.checkpoints) - 1)):
            cells = [format_mean([measure.of(curve)[at] for curve in own], measure.form) for own in deciding]
            table.add_row(measure.name if at == 0 else "", f"{one.checkpoints[at]:,}", *cells)
        table.add_section()
    for quarter, at in (("1st quarter", 0), ("4th quarter", -1)):
        cells = [format_mean([curve.coverage[at] for curve in own], ".0%") for own in deciding]
        table.add_row("pairs covered" if at == 0 else "", quarter, *cells)
    return table


def _tenth(curve: LearningCurve) -> int:
    """Return the index of the checkpoint nearest to a tenth of the run."""
    return int(np.argmin(np.abs(curve.checkpoints - curve.checkpoints[-1] / 10)))


def _trained_table(trained: list[list[Curves]]) -> Table:
    last = int(trained[0][0][0].checkpoints[-1])
    seeds = len(trained[0][0])
    table = Table(title=f"Error of the values, all arms trained in turn: mean ± s.e. of {seeds} seeds")
    table.add_column(f"after {last:,} steps")
    for base in (_PAPER, _SLOWER):
        table.add_column(base.name, justify="right")
    for row, variant in enumerate(ROUND_ROBIN[0]):
        cells = [format_mean([curve.errors[-1] for curve in sizes[row]]) for sizes in trained]
        table.add_row(variant.name, *cells)
    return table


def _deciding_remarks(deciding: list[Curves]) -> list[str]:
    one = deciding[0][0]
    last = int(one.checkpoints[-1])
    updates = last // len(_TASK.arms)
    decay = "; ".join(
        f"{total:.1f}, of which {late:.1f} in the second half ({variant.name})"
        for variant in (_PAPER, _SLOWER)
        for total, late in (_step_sizes(variant, updates),)
    )
    paper, larger = (variant.make(0).settings for variant in (_PAPER, _LARGER_BONUS))
    reach = ", ".join(
        f"{settings.bonus_scale**2 * math.log(last) / _GAP**2:.3g} for C = {settings.bonus_scale:g}"
        for settings in (paper, larger)
    )
    return [
        f"{_SLOWER.name}: learning_rate_decay {larger.learning_rate_decay:g} instead of "
        f"{paper.learning_rate_decay:g}. {_LARGER_BONUS.name}: that, and bonus_scale {larger.bonus_scale:g} "
        f"instead of {paper.bonus_scale:g}.",
        f"Means from t = {one.checkpoints[_tenth(one)]:,} to {last:,}: "
        + " ".join([*(_verdict(measure, deciding) for measure in MEASURES), _coverage_verdict(deciding)]),
        "The error includes the approximation error of the network; only the rest converges to 0.",
        f"The learning rate decays with the updates of the arm. Over {updates:,} updates the step sizes "
        f"add up to {decay}; a half-space receives only the updates that fall into it.",
        f"At t = {last:,} an arm with a value {_GAP} below the best is chosen again only while its "
        f"pseudocount is below C² ln t / {_GAP}²: {reach}.",
        f"Pairs: {REGIONS} × {REGIONS} regions of contexts × {len(_TASK.arms)} arms. Contexts that share "
        "gates share counts, so a pseudocount can grow, and the bonus shrink, in a region where the arm "
        "is not chosen. The theory only predicts that the smallest pseudocount grows without bound.",
    ]


def _verdict(measure: Measure, deciding: list[Curves]) -> str:
    def moved(own: Curves) -> float:
        return float(np.mean([measure.of(curve)[-1] - measure.of(curve)[_tenth(curve)] for curve in own]))

    return verdict(
        f"{measure.title} {'grows' if measure.grows else 'decreases'}",
        [moved(own) > 0 if measure.grows else moved(own) < 0 for own in deciding],
    )


def _coverage_verdict(deciding: list[Curves]) -> str:
    return verdict(
        "Every arm is chosen in every region in every quarter",
        [all(curve.coverage.min() == 1 for curve in own) for own in deciding],
    )


def verdict(claim: str, holds: list[bool]) -> str:
    """State for which deciding variants a claim holds.

    >>> verdict("The regret decreases", [False, True, True])
    'The regret decreases: only with slower decay, larger bonus.'
    """
    if all(holds):
        return f"{claim}: yes."
    names = [variant.name for variant, held in zip(DECIDING, holds, strict=True) if held]
    return f"{claim}: only with {', '.join(names)}." if names else f"{claim}: no."


def _trained_remarks(trained: list[list[Curves]]) -> list[str]:
    remarks = []
    for base, sizes in zip((_PAPER, _SLOWER), trained, strict=True):
        errors = [_mean_error(own, -1) for own in sizes]
        better = all(larger < smaller for smaller, larger in pairwise(errors))
        scope = "every larger network" if better else "not every larger network"
        remarks.append(f"After the same data, with {base.name}: {scope} has a smaller error.")
    return remarks


def _mean_error(curves: Curves, at: int) -> float:
    return float(np.mean([curve.errors[at] for curve in curves]))


def _step_sizes(variant: ConvergenceVariant, updates: int) -> tuple[float, float]:
    """Return the sum of the step sizes of an arm's first ``updates`` updates, and of their second half."""
    settings = variant.make(0).settings
    rates = settings.learning_rate / (1 + settings.learning_rate_decay * np.arange(updates))
    return float(rates.sum()), float(rates[updates // 2 :].sum())


def _draw(path: Path, deciding: list[Curves], trained: list[list[Curves]]) -> None:
    with figure(path, width=13, height=7.5, columns=3, rows=2) as axes:
        for ax, measure in zip(axes, MEASURES, strict=False):
            for variant, own in zip(DECIDING, deciding, strict=True):
                band(ax, own[0].checkpoints, [measure.of(curve) for curve in own], label=variant.name)
            ax.set(title=measure.title, xlabel="step t", xscale="log")
        for ax, base, sizes in zip(axes[4:], (_PAPER, _SLOWER), trained, strict=True):
            for variant, own, color in zip(ROUND_ROBIN[0], sizes, ("0.7", "0.45", "black"), strict=True):
                errors = [curve.errors for curve in own]
                band(ax, own[0].checkpoints, errors, label=variant.name, color=color)
            ax.set(title=f"Error by network size: {base.name}", xlabel="step t", xscale="log")
        for ax in axes[2:4]:
            ax.set_yscale("log")
        error_axes = (axes[0], *axes[4:])
        highest = max(ax.get_ylim()[1] for ax in error_axes)
        for ax in (axes[1], *error_axes):
            ax.set_ylim(0, None if ax is axes[1] else highest)
        axes[0].legend(frameon=False, loc="lower left", title=f"mean ± s.e. of {len(deciding[0])} seeds")
        axes[4].legend(frameon=False, loc="lower left", title="all arms trained in turn")
