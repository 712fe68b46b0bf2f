"""The result of ``explain``: the decomposition of every arm's value."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from glcb import _validation
from glcb._arrays import Float64
from glcb._types import Arm
from glcb.explain import figure, text


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """How the features of a context contribute to the value of every arm.

    The contributions of an arm add up to the difference between its value and its base, up to rounding in
    float32. Arrays are in the order of ``arms``. Explaining a context does not change the bandit.

    Attributes
    ----------
    arms
        The names of the arms.
    features
        The names of the features, or their positions if they have no names.
    feature_values
        The value of each feature in this context, as text.
    bases
        The value of each arm for the baseline, a context of neutral inputs, with the gates fixed.
    How much each feature moves the value from the base: one row per arm, one column per feature.
        How much each feature moves the value from the base: one row per arm, one column per feature.
    values
        The expected reward of each arm.
    bonuses
        The exploration bonus of each arm; infinite for arms that are chosen first.
    pseudocounts
        The number of decisions for each arm in similar contexts.
    sampled
        Whether the bonuses are a random draw. If so, it is the draw of the next decision.
    own_values
        For arms with features: the value of each feature for each arm, as text. None if all arms share them.
    probabilities
        For arms with features: the probability with which each arm would be chosen among all candidates.

    Examples
    --------
    >>> from glcb import LinUCB
    >>> policy = LinUCB(arms=["a", "b"], features=2)
    >>> policy.learn([1, 0], "a", 1)
    >>> explanation = policy.explain([1, 0])
    >>> explanation.arms, explanation.contributions.shape
    (('a', 'b'), (2, 2))
    """

    arms: tuple[Arm, ...]
    features: tuple[str, ...]
    feature_values: tuple[str, ...]
    bases: Float64
    contributions: Float64
    values: Float64
    bonuses: Float64
    pseudocounts: Float64
    sampled: bool = False
    own_values: tuple[tuple[str, ...], ...] | None = None
    probabilities: Float64 | None = None

    @cached_property
    def decimals(self) -> int:
        """Number of decimals of all amounts in the text: the largest amount has three significant digits."""
        amounts = np.concatenate([self.values, self.bases, self.contributions.ravel()])
        largest = float(np.abs(amounts).max())
        return min(max(2 - math.floor(math.log10(largest)), 0), 15) if largest > 0 else 0

    @property
    def scores(self) -> Float64:
        """Value plus bonus of each arm. The policy chooses the highest."""
        return self.values + self.bonuses

    def contributions_of(self, arm: Arm) -> dict[str, float]:
        """Return the contribution of each feature to the value of ``arm``, the largest first.

        Parameters
        ----------
        arm
            The name of the arm.

        Returns
        -------
        dict
            The contributions by feature.

        Raises
        ------
        UnknownArm
            If there is no such arm.
        """
        return self._contributions(self._index(arm))

    def sentence(self, arm: Arm) -> str:
        """Return the expected reward of ``arm``, the main reasons, and the evidence as text.

        Parameters
        ----------
        arm
            The name of the arm.

        Returns
        -------
        str
            One or two sentences.

        Raises
        ------
        UnknownArm
            If there is no such arm.
        """
        return text.sentence(self, self._index(arm))

    def _contributions(self, index: int) -> dict[str, float]:
        row = self.contributions[index].tolist()
        return {self.features[i]: row[i] for i in text.by_size(self, index)}

    def _index(self, arm: Arm) -> int:
        return _validation.arm(arm, {name: index for index, name in enumerate(self.arms)})

    def grouped(
        self, owners: Sequence[str | None], features: Sequence[str], feature_values: Sequence[str]
    ) -> "Explanation":
        """Return an explanation with contributions summed by group.

        Parameters
        ----------
        owners
            The group of each current feature. A feature without a group (None) must contribute nothing.
        features
            The names of the groups.
        feature_values
            The value of each group, as text.

        Returns
        -------
        Explanation
            The explanation by group.
        """
        column_of = {name: column for column, name in enumerate(features)}
        sums = np.zeros((len(features), len(self.arms)))
        own = [i for i, owner in enumerate(owners) if owner is not None]
        np.add.at(sums, [column_of[str(owners[i])] for i in own], self.contributions.T[own])
        return replace(
            self, features=tuple(features), feature_values=tuple(feature_values), contributions=sums.T
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation in a JSON-serializable form.

        Returns
        -------
        dict
            The explanation. An infinite bonus becomes None.
        """
        return {
            "context": dict(zip(self.features, self.feature_values, strict=True)),
            "sampled": self.sampled,
            "arms": [
                {
                    "arm": arm,
                    **self._own_features(index),
                    "base": float(self.bases[index]),
                    "contributions": self._contributions(index),
                    "value": float(self.values[index]),
                    "bonus": float(self.bonuses[index]) if np.isfinite(self.bonuses[index]) else None,
                    "pseudocount": float(self.pseudocounts[index]),
                    "sentence": text.sentence(self, index),
                }
                for index, arm in enumerate(self.arms)
            ],
        }

    def _own_features(self, index: int) -> dict[str, Any]:
        if self.own_values is None:
            return {}
        pairs = zip(self.features, self.feature_values, self.own_values[index], strict=True)
        return {"features": {name: own for name, shared, own in pairs if own != shared}}

    def draw(self, path: str | PathLike[str]) -> None:
        """Save a figure of the contributions to the arms with the highest scores.

        Parameters
        ----------
        path
            The file to write. Its name must end in .png, .svg or .pdf.

        Raises
        ------
        InvalidSettings
            If the file cannot be written.
        MissingExtra
            If matplotlib is not installed.
        """
        figure.draw(self, Path(path))

    def __str__(self) -> str:
        return text.page(self)

    def _repr_html_(self) -> str:
        return text.html_view(self)

    def __repr__(self) -> str:
        return f"<Explanation: {len(self.arms)} arms, {len(self.features)} features; print() shows it>"
