"""Marginal propensities of the slots of a ranking, for independent IPS.

A log has the propensity of a slot given the slots above it. Its marginal propensity is the mean over all ways
to fill the slots above, so the policy itself is needed. It depends only on the *set* of arms above. If there
are few such sets, all of them are visited and the result is exact; else it is a mean over simulated rankings.
"""

from math import comb

import numpy as np

from glcb._arrays import Float64
from glcb.evaluate.rows import Chunk
from glcb.evaluate.targets import Target

MAX_SETS = 256
"""With more sets of arms above the last slot, rankings are simulated."""
SIMULATIONS = 500

_Arms = tuple[int, ...]


def is_exact(arms: int, slots: int) -> bool:
    """Return whether rankings are small enough to visit all of them.

    >>> is_exact(10, 3), is_exact(50, 5)
    (True, False)
    """
    return sum(comb(arms, above) for above in range(slots)) <= MAX_SETS


def marginal_probabilities(target: Target, chunk: Chunk, rng: np.random.Generator) -> Float64:
    """Return the marginal probability of the arm of each slot under a policy that does not learn."""
    result: Float64 = np.empty(len(chunk))
    for rows in chunk.rankings():
        exact = is_exact(int(chunk.eligible[rows.start].sum()), len(rows))
        masses: dict[_Arms, float] = {(): 1.0 if exact else SIMULATIONS}
        for row in rows:
            above = list(masses)
            shares = target.visit(_given(chunk, rows.start, above))[-len(above) :]
            mass = np.array(list(masses.values()))
            result[row] = mass @ shares[:, chunk.arm[row]] / mass.sum()
            masses = {}
            for arms, own, share in zip(above, mass, shares, strict=True):
                amounts = own * share if exact else rng.multinomial(int(own), share)
                for arm in np.flatnonzero(amounts).tolist():
                    key = tuple(sorted((*arms, arm)))
                    masses[key] = masses.get(key, 0.0) + float(amounts[arm])
    return result


def _given(chunk: Chunk, top: int, above: list[_Arms]) -> Chunk:
    """Return the next slot of a ranking, repeated for every set of arms above it after the top slot."""
    sets = above if above == [()] else [(), *above]
    count = len(sets)
    eligible = np.repeat(chunk.eligible[top : top + 1], count, axis=0)
    for position, arms in enumerate(sets):
        eligible[position, list(arms)] = False
    return Chunk(
        contexts=[chunk.contexts[top]] * count,
        arm=np.zeros(count, np.int64),
        reward=np.zeros(count),
        raw_reward=np.zeros(count),
        propensity=np.ones(count),
        eligible=eligible,
        all_eligible=False,
        features=[chunk.features[top]] * count,
        slot=np.array([len(arms) for arms in sets]),
        examined=np.ones(count, np.bool_),
    )
