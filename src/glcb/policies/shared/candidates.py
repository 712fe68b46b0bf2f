"""Candidates: encoded arms, and the joint vector of a context and an arm.

A policy that shares its evidence between arms has a single arm, and its context is the joint vector: the
context, followed by the features of the arm.
"""

from dataclasses import dataclass, field

import numpy as np

from glcb._arrays import Float32


@dataclass(eq=False)
class Candidates:
    """Encoded arms to choose from.

    The features must not change: values derived only from them are kept in ``parts``.
    """

    features: Float32
    """The features of each arm, one row each."""
    parts: dict[object, tuple[Float32, Float32]] = field(default_factory=dict)
    """Contributions of arms to the gates and random features of a policy, by the identity of its gates."""

    def __len__(self) -> int:
        return len(self.features)

    def take(self, rows: list[int]) -> "Candidates":
        """Return some of the candidates, with the parts that are already known."""
        parts = {key: (planes[rows], fourier[rows]) for key, (planes, fourier) in self.parts.items()}
        return Candidates(self.features[rows], parts)


def join(x: Float32, candidates: Candidates, index: int) -> Float32:
    """Return the joint vector of a context and one candidate."""
    return np.concatenate([x, candidates.features[index]])


def join_all(x: Float32, candidates: Candidates) -> Float32:
    """Return the joint vectors of a context and all candidates, one row each."""
    joint: Float32 = np.empty((len(candidates), x.size + candidates.features.shape[1]), np.float32)
    joint[:, : x.size] = x
    joint[:, x.size :] = candidates.features
    return joint
