"""What an explanation holds, for every arm at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from glcb import _validation
from glcb._types import Arm, Float64
from glcb.explain import chart, text


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Where every arm's value comes from. Arrays are in the order of ``arms``; nothing was learned for it.

    The contributions of an arm add up to the difference between its value and its base, but for the rounding
    of numbers in single precision.
    """

    arms: tuple[Arm, ...]
    features: tuple[str, ...]
    """The names of the features; of those without a name, their positions."""
    given: tuple[str, ...]
    """What each feature was in this context, in words."""
    bases: Float64
    """The value of each arm for the baseline: for inputs that say nothing, seen through the same gates."""
    contributions: Float64
    """How far each feature moves the value from the base: one row per arm, one column per feature."""
    values: Float64
    """Expected reward of each arm."""
    bonuses: Float64
    """What is added to each value for the sake of exploration; infinite for arms to be tried first."""
    pseudocounts: Float64
    """How often each arm was tried on contexts like this one."""
    sampled: bool = False
    """Whether the bonuses are a random draw: then they are those of the next decision."""

    @cached_property
    def decimals(self) -> int:
        """How many decimals give the largest amount three digits; in words, all amounts have as many."""
        amounts = np.concatenate([self.values, self.bases, self.contributions.ravel()])
        largest = float(np.abs(amounts).max())
        return min(max(2 - math.floor(math.log10(largest)), 0), 15) if largest > 0 else 0

    @property
    def scores(self) -> Float64:
        """Value plus bonus of each arm; the policy's rule is to play the largest."""
        return self.values + self.bonuses

    def contributions_of(self, arm: Arm) -> dict[str, float]:
        """Return what each feature contributes to the value of ``arm``, the largest first."""
        return self._contributions(self._number(arm))

    def sentence(self, arm: Arm) -> str:
        """Return in words what ``arm`` is expected to bring, why, and how much experience is behind it."""
        return text.sentence(self, self._number(arm))

    def _contributions(self, number: int) -> dict[str, float]:
        row = self.contributions[number].tolist()
        return {self.features[i]: row[i] for i in text.by_size(self, number)}

    def _number(self, arm: Arm) -> int:
        return _validation.arm(arm, {name: number for number, name in enumerate(self.arms)})

    def gathered(
        self, owners: Sequence[str | None], features: Sequence[str], given: Sequence[str]
    ) -> "Explanation":
        """Return the same for ``features``; ``owners`` says to which of them each feature of ours belongs.

        What belongs to none of them must contribute nothing.
        """
        column_of = {name: column for column, name in enumerate(features)}
        sums = np.zeros((len(features), len(self.arms)))
        own = [i for i, owner in enumerate(owners) if owner is not None]
        np.add.at(sums, [column_of[str(owners[i])] for i in own], self.contributions.T[own])
        return replace(self, features=tuple(features), given=tuple(given), contributions=sums.T)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it; a bonus that is infinite becomes None."""
        return {
            "context": dict(zip(self.features, self.given, strict=True)),
            "bonus_is_random": self.sampled,
            "arms": [
                {
                    "arm": arm,
                    "base": float(self.bases[number]),
                    "contributions": self._contributions(number),
                    "value": float(self.values[number]),
                    "bonus": float(self.bonuses[number]) if np.isfinite(self.bonuses[number]) else None,
                    "pseudocount": float(self.pseudocounts[number]),
                    "sentence": text.sentence(self, number),
                }
                for number, arm in enumerate(self.arms)
            ],
        }

    def draw(self, path: str | PathLike[str]) -> None:
        """Draw the contributions to the arms with the best scores; the name ends in .png, .svg or .pdf."""
        chart.draw(self, Path(path))

    def __str__(self) -> str:
        return text.page(self)

    def __repr__(self) -> str:
        return f"Explanation of {len(self.arms)} arms by {len(self.features)} features; print it to read it"
