"""The compiled steps of GLCB: load a context, estimate the arms and choose one, learn a reward.

Each step is one compiled call. The overhead of a call is paid once, and data stays in the CPU caches from one
part to the next. All steps but the first use the context that was loaded last.
"""

from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int64

from glcb._arrays import Float32, Float64, Int64
from glcb._numba.arrays import as_matrix, new_vector
from glcb._numba.compile import kernel
from glcb._numba.packed import named_tuple_type, unpack
from glcb.experts.fourier import write_features
from glcb.experts.mixture import EXPERT_ARRAYS, ExpertArrays, learn_mixture, mix_values
from glcb.experts.regression import learn_target
from glcb.explore.counts import COUNT_ARRAYS, CountArrays, add_count, write_pseudocounts
from glcb.explore.probabilities import choose_arm
from glcb.explore.scoring import add_skew, write_bonuses
from glcb.gln.context_cache import CONTEXT_CACHE_ARRAYS, ContextCacheArrays, cache_context
from glcb.gln.gates import GATE_ARRAYS, GateArrays
from glcb.gln.layout import BANK_ARRAYS, BankArrays
from glcb.gln.learn import learn
from glcb.gln.optimizer import OPTIMIZER_ARRAYS, OptimizerArrays
from glcb.gln.predict import predict
from glcb.values.tree import TREE_ARRAYS, TreeArrays, targets_for, update_leaf, write_moments


class RateArrays(NamedTuple):
    """Settings used directly by the steps: rates and the size of the bonus."""

    learning_rate: float
    learning_rate_decay: float
    switching_rate: float
    switching_rate_decay: float
    bonus_scale: float
    bonus_in_deviations: bool
    """Whether the unit of the bonus is the predicted standard deviation, or the reward."""


RATE_ARRAYS = named_tuple_type(RateArrays, float64, float64, float64, float64, float64, boolean)


class GLCBArrays(NamedTuple):
    """The kernels' view of a whole GLCB policy."""

    gates: GateArrays
    bank: BankArrays
    optimizer: OptimizerArrays
    tree: TreeArrays
    experts: ExpertArrays
    counts: CountArrays
    context_cache: ContextCacheArrays
    expert_inputs: Float64
    """The inputs of the experts for the context in the cache."""
    rates: RateArrays
    effective_rewards: Int64
    """Number of rewards of each arm, halved with every half-life."""


GLCB_ARRAYS = named_tuple_type(
    GLCBArrays,
    GATE_ARRAYS,
    BANK_ARRAYS,
    OPTIMIZER_ARRAYS,
    TREE_ARRAYS,
    EXPERT_ARRAYS,
    COUNT_ARRAYS,
    CONTEXT_CACHE_ARRAYS,
    float64[::1],
    RATE_ARRAYS,
    int64[::1],
)


@kernel
def _load(x: Float32, arrays: GLCBArrays) -> None:
    """Compute everything that depends only on the context, unless it is cached."""
    bank, z = arrays.bank, arrays.expert_inputs
    if cache_context(x, arrays.gates, bank.lowest_input, bank.bias, arrays.context_cache) and z.size > 0:
        write_features(x, arrays.experts.features, z)


@kernel
def load_context(x: Float32, addresses: Int64) -> None:
    """Make ``x`` the context of the next step.

    Decisions and rewards need this. Inside their kernels, it would be compiled for each of them.
    """
    _load(x, unpack(addresses, GLCB_ARRAYS))


@kernel
def _write_estimates(results: Float64, arrays: GLCBArrays) -> None:
    """Write value, bonus and pseudocount of every arm: ``results`` has at least three rows."""
    bank, tree, counts, rates, cache = (
        arrays.bank,
        arrays.tree,
        arrays.counts,
        arrays.rates,
        arrays.context_cache,
    )
    networks, arms = len(bank.mixture), results.shape[1]
    first: int = np.int64(0)  # type: ignore[assignment]  # a literal would compile another version
    probabilities = new_vector(np.float32, networks)
    deviations, scales = new_vector(np.float64, arms), new_vector(np.float64, arms)
    uncertainties = new_vector(np.float64, arms)
    for arm in range(arms):
        uncertainties[arm] = 0.0
    values, bonuses, pseudocounts = results[0], results[1], results[2]
    predict(cache.inputs, cache.signature, first, bank, probabilities)
    write_moments(as_matrix(probabilities, 0, arms, networks // arms), tree.outcomes, values, deviations)
    if arrays.expert_inputs.size > 0:
        mix_values(cache.context, arrays.expert_inputs, values, deviations, uncertainties, arrays.experts)
    for arm in range(arms):
        scales[arm] = rates.bonus_scale * (deviations[arm] if rates.bonus_in_deviations else 1.0)
    write_pseudocounts(cache.signature, counts, pseudocounts)
    write_bonuses(pseudocounts, counts.total[0] + 1, scales, bonuses)
    if arrays.expert_inputs.size > 0 and arrays.experts.binary:
        add_skew(values, counts.total[0] + 1, pseudocounts, bonuses)
    for arm in range(arms):
        bonuses[arm] += uncertainties[arm]


@kernel
def estimate(
    exploration: float, by_gap: bool, point: float, count: bool, results: Float64, addresses: Int64
) -> int:
    """Write value, bonus, pseudocount and probability of every arm: ``results`` is [4, arms].

    Returns the arm whose interval of the cumulative distribution contains ``point``. With ``count``, a
    decision for this arm is counted.
    """
    arrays = unpack(addresses, GLCB_ARRAYS)
    _write_estimates(results, arrays)
    scores = new_vector(np.float64, results.shape[1])
    for arm in range(scores.size):
        scores[arm] = results[0, arm] + results[1, arm]
    chosen = choose_arm(scores, exploration, by_gap, point, results[3])
    if count:
        add_count(arrays.context_cache.signature, chosen, arrays.counts)
    return chosen


@kernel
def estimate_many(contexts: Float32, results: Float64, addresses: Int64) -> None:
    """Write value, bonus and pseudocount of every arm: ``results`` is [contexts, 3, arms]."""
    arrays = unpack(addresses, GLCB_ARRAYS)
    for context in range(len(contexts)):
        _load(contexts[context], arrays)
        _write_estimates(results[context], arrays)


@kernel
def count_decision(arm: int, addresses: Int64) -> None:
    """Count a decision for ``arm``."""
    arrays = unpack(addresses, GLCB_ARRAYS)
    add_count(arrays.context_cache.signature, arm, arrays.counts)


@kernel
def network_value(arm: int, addresses: Int64) -> float:
    """Return the networks' predicted value of one arm."""
    arrays = unpack(addresses, GLCB_ARRAYS)
    cache, outcomes = arrays.context_cache, arrays.tree.outcomes[arm : arm + 1]
    nodes = outcomes.shape[1] - 1
    probabilities = new_vector(np.float32, nodes)
    value, deviation = new_vector(np.float64, 1), new_vector(np.float64, 1)
    predict(cache.inputs, cache.signature, arm * nodes, arrays.bank, probabilities)
    write_moments(as_matrix(probabilities, 0, 1, nodes), outcomes, value, deviation)
    predicted: float = value[0]
    return predicted


@kernel
def learn_reward(arm: int, reward: float, value: float, counted: bool, addresses: Int64) -> bool:
    """Learn the reward of ``arm``; count the decision unless it is already ``counted``.

    ``value`` is the networks' prediction. For binary rewards it is not read: learning computes it. Bounded
    rewards compute it in another kernel, so that this one compiles sooner. Returns whether
    the first rewards must be learned again, with random features.
    """
    arrays = unpack(addresses, GLCB_ARRAYS)
    bank, tree, rates, cache = arrays.bank, arrays.tree, arrays.rates, arrays.context_cache
    experts, z = arrays.experts, arrays.expert_inputs
    rewards = arrays.effective_rewards[arm]
    networks, targets = targets_for(arm, reward, tree)
    probability = learn(
        cache.inputs,
        cache.signature,
        networks,
        targets,
        rates.learning_rate / (1 + rates.learning_rate_decay * rewards),
        min(1.0, rates.switching_rate / (1 + rates.switching_rate_decay * rewards)),
        arrays.optimizer,
        bank,
    )
    update_leaf(arm, reward, tree)
    arrays.effective_rewards[arm] += 1
    if not counted:
        add_count(cache.signature, arm, arrays.counts)
    if z.size == 0:
        return False
    network = probability if experts.binary else value
    has_fourier_now = learn_mixture(cache.context, z, arm, reward, network, experts)
    if has_fourier_now:
        cache.context[0] = np.nan  # the cached inputs have no random features
    return has_fourier_now


@kernel
def learn_fourier(arm: int, target: float, addresses: Int64) -> None:
    """Learn a target of ``arm`` with only the regression on random features."""
    arrays = unpack(addresses, GLCB_ARRAYS)
    learn_target(arrays.expert_inputs, arm, target, arrays.experts.fourier)
