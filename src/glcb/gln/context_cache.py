"""A cache of the last context's signature and inputs: a decision is usually followed by its reward."""

from typing import NamedTuple

import numpy as np
from numba import float32, int64

from glcb._arrays import Float32, Int64
from glcb._numba.compile import kernel
from glcb._numba.packed import named_tuple_type
from glcb.gln.arithmetic import padded
from glcb.gln.gates import GateArrays, write_signature
from glcb.gln.predict import write_inputs


class ContextCacheArrays(NamedTuple):
    """The last context and what the networks derive from it."""

    context: Float32
    signature: Int64
    """The signature of each unit, which selects its cell."""
    inputs: Float32
    """The inputs of the first layer, padded."""


CONTEXT_CACHE_ARRAYS = named_tuple_type(ContextCacheArrays, float32[::1], int64[::1], float32[::1])


def empty_context_cache(features: int, units: int) -> ContextCacheArrays:
    """Return an empty cache. Its context is NaN, which equals no context."""
    return ContextCacheArrays(
        context=np.full(features, np.nan, np.float32),
        signature=np.zeros(units, np.int64),
        inputs=np.zeros(padded(features + 1), np.float32),
    )


@kernel
def cache_context(
    x: Float32, gates: GateArrays, lowest_input: float, bias: float, cache: ContextCacheArrays
) -> bool:
    """Compute signature and inputs of ``x`` unless cached; return whether they were computed."""
    same = True
    for i in range(x.size):
        same &= x[i] == cache.context[i]
    if same:
        return False
    write_signature(x, gates, cache.signature)
    write_inputs(x, lowest_input, bias, cache.inputs)
    for i in range(x.size):
        cache.context[i] = x[i]
    return True
