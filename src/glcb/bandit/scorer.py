"""Scores from a frozen copy of a model.

Estimating the arms is the part of a decision that needs no state but the model. A copy of the model can do it
in another process; the bandit itself draws the arm, counts the decision and learns from its reward.
"""

from typing import Any, NamedTuple

import numpy as np

from glcb._arrays import Arrays
from glcb._model_file import Snapshot
from glcb.bandit.bandit import Bandit
from glcb.bandit.encoding.encoder import Encoder
from glcb.policies import registry
from glcb.policies.decision import Estimates


class FrozenModel(NamedTuple):
    """The encoder and the policy of a bandit, as they were at one time. It can be sent to other processes."""

    policy: str
    """The name of the policy."""
    learned: Snapshot
    encoder: dict[str, Any]
    scales: Arrays


def freeze(bandit: Bandit, *, copy: bool = True) -> FrozenModel | None:
    """Return a copy of the model of a bandit.

    Parameters
    ----------
    bandit
        The bandit.
    copy
        Whether to copy what was learned. Otherwise, the model is valid until the bandit learns again.

    Returns
    -------
    FrozenModel or None
        The copy, or None if the bandit has no model yet, or the model of arms with features or of rankings.
    """
    with bandit._lock:
        core = bandit._core
        if core.policy is None or core.encoder is None or core.catalog is not None or core.positions:
            return None
        encoder, scales = core.encoder.snapshot()
        copies = {name: array.copy() for name, array in scales.items()}
        return FrozenModel(core.config.policy, core.policy.snapshot(copy=copy), encoder, copies)


class Scorer:
    """Estimates the arms with a frozen model. It learns nothing.

    Parameters
    ----------
    model
        The model.
    """

    def __init__(self, model: FrozenModel) -> None:
        self._policy = registry.get(model.policy).policy_class.from_snapshot(model.learned)
        self._encoder = Encoder.from_snapshot(model.encoder, model.scales)

    def estimate(self, context: Any, seed: int) -> Estimates:
        """Return the estimates of all arms, for :meth:`Bandit.decide`.

        Parameters
        ----------
        context
            The values of the features.
        seed
            Seed of the random numbers, if the policy is randomized. With the same model, context and seed,
            the estimates are the same bit for bit.

        Returns
        -------
        Estimates
            Value, bonus and pseudocount of every arm.

        Raises
        ------
        InvalidContext
            The context is invalid.
        """
        if self._policy.is_randomized:
            self._policy.rng_state = np.random.default_rng(seed).bit_generator.state
        return self._policy.estimate(self._encoder.encode(context).x, checked=True)
