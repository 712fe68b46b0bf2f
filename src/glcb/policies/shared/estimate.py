"""Value and bonus of every candidate, from a policy shared by all arms."""

from functools import singledispatch

import numpy as np

from glcb._arrays import Float32, Float64
from glcb.policies.base import Policy
from glcb.policies.decision import Estimates
from glcb.policies.glcb.policy import GLCB
from glcb.policies.linear.base import pseudocounts
from glcb.policies.linear.lin_ts import LinTS
from glcb.policies.linear.lin_ucb import LinUCB
from glcb.policies.shared import kernels
from glcb.policies.shared.candidates import Candidates, join_all

MAX_NETWORKS = 2000
"""Maximum number of networks evaluated per decision. With more candidates, the regressions select a
shortlist and determine the values of all other candidates."""
MIN_SHORTLIST = 250
"""Length of the shortlist if a candidate has several networks."""


@singledispatch
def estimate_candidates(policy: Policy, x: Float32, candidates: Candidates) -> Estimates:
    """Return value, bonus and pseudocount of every candidate. Learns nothing.

    Parameters
    ----------
    policy
        A policy with a single arm, whose context is the joint vector of a context and an arm.
    x
        The encoded context.
    candidates
        The encoded arms.

    Returns
    -------
    Estimates
        One entry per candidate.
    """
    with policy._lock:
        rows = list(policy._estimate_many(join_all(x, candidates)))
    parts = [
        np.concatenate([getattr(row, name) for row in rows]) for name in ("values", "bonuses", "pseudocounts")
    ]
    return Estimates(*parts)


@estimate_candidates.register
def _(policy: GLCB, x: Float32, candidates: Candidates) -> Estimates:
    with policy._lock:
        gates, fourier = policy._gates.arrays, policy._experts.features.arrays
        key = id(policy._gates)
        parts = candidates.parts.get(key)
        if parts is None:
            count = len(candidates)
            planes: Float32 = np.empty((count, len(gates.normals)), np.float32)
            fourier_parts: Float32 = np.empty((count, len(fourier.directions)), np.float32)
            kernels.write_arm_parts(candidates.features, x.size, gates, fourier, planes, fourier_parts)
            parts = candidates.parts[key] = (planes, fourier_parts)
        results = np.empty((3, len(candidates)))
        addresses = policy._arrays.addresses
        shortlisted = max(MIN_SHORTLIST, MAX_NETWORKS // policy._bank.networks)
        selects = any(policy._experts.shares[name] > 0 for name in ("linear", "fourier"))
        has_networks = len(candidates) <= shortlisted or not selects
        kernels.estimate_candidates(x, candidates.features, *parts, has_networks, results, addresses)
        if not has_networks:
            scores = results[0] + results[1]
            rows = np.argpartition(scores, -shortlisted)[-shortlisted:]
            best = np.empty((3, shortlisted))
            planes, fourier_parts = parts
            kernels.estimate_candidates(
                x, candidates.features[rows], planes[rows], fourier_parts[rows], True, best, addresses
            )
            results[:, rows] = best
    return Estimates(results[0], results[1], results[2])


@estimate_candidates.register
def _(policy: LinUCB, x: Float32, candidates: Candidates) -> Estimates:
    with policy._lock:
        z, means, widths = _linear(policy, x, candidates)
        bonuses = policy.alpha * (policy._high - policy._low) * np.sqrt(widths)
        return Estimates(means, bonuses, _counts(z, widths, policy.ridge))


@estimate_candidates.register
def _(policy: LinTS, x: Float32, candidates: Candidates) -> Estimates:
    """Draw the weights once: the candidates share them."""
    with policy._lock:
        z, means, widths = _linear(policy, x, candidates)
        bonuses = (policy._high - policy._low) * (z @ policy.draw_noise(0))
        return Estimates(means, bonuses, _counts(z, widths, policy.ridge))


def _linear(policy: LinUCB | LinTS, x: Float32, candidates: Candidates) -> tuple[Float64, Float64, Float64]:
    """Return the inputs z, the predicted rewards and z'A⁻¹z of all candidates."""
    z = np.ones((len(candidates), policy.features + 1))
    z[:, :-1] = join_all(x, candidates)
    means = policy._low + (policy._high - policy._low) * (z @ policy._weights[0])
    widths = np.einsum("ni,ni->n", z @ policy._inverses[0], z)
    return z, means, np.maximum(widths, 0)


def _counts(z: Float64, widths: Float64, ridge: float) -> Float64:
    return np.concatenate([pseudocounts(row, widths[i : i + 1], ridge) for i, row in enumerate(z)])
