"""One compiled call for a decision of GLCB, and one for a step of learning.

All parts of a bandit meet here. What a call costs by itself is paid once, and nothing has to be fetched into
the caches again between two parts.
"""

from typing import NamedTuple

import numpy as np
from numba import boolean, float32, float64, int64, uint32

from glcb._numba.compile import kernel
from glcb._numba.packed import named_tuple, unpack
from glcb._types import Float32, Float64, Int64
from glcb.explore.bonus import write_bonuses
from glcb.explore.counts import CountArrays, add_try, write_pseudocounts
from glcb.gln.context_cache import ContextCacheArrays, look
from glcb.gln.gates import GateArrays
from glcb.gln.layout import BankArrays
from glcb.gln.learn import learn
from glcb.gln.optimizer import OptimizerArrays
from glcb.gln.predict import predict
from glcb.values.leaves import TreeArrays, lesson, moments, take_reward


class RateArrays(NamedTuple):
    """How a bandit learns and explores, as far as it is not the business of one part alone."""

    learning_rate: float
    learning_rate_decay: float
    switching_rate: float
    switching_rate_decay: float
    bonus_scale: float
    bonus_in_deviations: bool
    """Whether the bonus is a multiple of the predicted standard deviation, or of the reward's unit."""


class GLCBArrays(NamedTuple):
    """All parts of a bandit."""

    planes: GateArrays
    memory: BankArrays
    stepper: OptimizerArrays
    leaves: TreeArrays
    tries: CountArrays
    sight: ContextCacheArrays
    manner: RateArrays
    evidence: Int64
    """How many rewards of each arm count."""


_float32s, _float64s, _int64s = float32[::1], float64[::1], int64[::1]
_PARTS = {
    GateArrays: (float32[:, ::1], _float32s, _int64s),
    BankArrays: (
        int64[:, ::1],
        int64[:, ::1],
        _float32s,
        _int64s,
        float32[:, ::1],
        int64[:, ::1],
        _float32s,
        boolean,
        boolean,
        float64,
        float64,
        float64,
        float64,
    ),
    OptimizerArrays: (_float64s, _int64s, float64[:, :, ::1], _int64s, float64, _float32s),
    TreeArrays: (float64[:, ::1], int64[:, ::1], float64, float64, boolean),
    CountArrays: (int64[:, ::1], uint32[:, ::1], _int64s, _int64s),
    ContextCacheArrays: (_float32s, _int64s, _float32s),
    RateArrays: (float64, float64, float64, float64, float64, boolean),
}
GLCB_ARRAYS = named_tuple(
    [*(named_tuple(kinds, part) for part, kinds in _PARTS.items()), _int64s], GLCBArrays
)
"""The same, as the compiler sees it."""


@kernel
def estimate(contexts: Float32, results: Float64, places: Int64) -> None:
    """Write value, bonus and pseudocount of every arm in each of the contexts."""
    planes, memory, _, leaves, tries, sight, manner, _ = unpack(places, GLCB_ARRAYS)
    networks, arms = len(memory.mixture), results.shape[2]
    probabilities = np.empty(networks, np.float32)
    deviations, scales = np.empty(arms), np.empty(arms)
    for context in range(len(contexts)):
        values, bonuses, pseudocounts = results[context, 0], results[context, 1], results[context, 2]
        look(contexts[context], planes, memory.lowest_input, memory.bias, sight)
        predict(sight.inputs, sight.signature, memory, probabilities)
        moments(probabilities.reshape(arms, networks // arms), leaves.outcomes, values, deviations)
        for arm in range(arms):
            scales[arm] = manner.bonus_scale * (deviations[arm] if manner.bonus_in_deviations else 1.0)
        write_pseudocounts(sight.signature, tries, pseudocounts)
        write_bonuses(pseudocounts, tries.turns[0] + 1, scales, bonuses)


@kernel
def count_try(x: Float32, arm: int, places: Int64) -> None:
    """Count that ``arm`` is played."""
    planes, memory, _, _, tries, sight, _, _ = unpack(places, GLCB_ARRAYS)
    look(x, planes, memory.lowest_input, memory.bias, sight)
    add_try(sight.signature, arm, tries)


@kernel
def learn_reward(x: Float32, arm: int, reward: float, counted: bool, places: Int64) -> None:
    """Learn that ``arm`` brought ``reward``, and count the play unless it is ``counted`` already."""
    planes, memory, stepper, leaves, tries, sight, manner, evidence = unpack(places, GLCB_ARRAYS)
    plays = evidence[arm]
    look(x, planes, memory.lowest_input, memory.bias, sight)
    networks, targets = lesson(arm, reward, leaves)
    learn(
        sight.inputs,
        sight.signature,
        networks,
        targets,
        manner.learning_rate / (1 + manner.learning_rate_decay * plays),
        min(1.0, manner.switching_rate / (1 + manner.switching_rate_decay * plays)),
        stepper,
        memory,
    )
    take_reward(arm, reward, leaves)
    evidence[arm] += 1
    if not counted:
        add_try(sight.signature, arm, tries)
