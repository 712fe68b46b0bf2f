"""What the networks see of a context, kept until another one comes: who decides mostly learns next."""

from typing import NamedTuple

import numpy as np

from glcb._numba.compile import kernel
from glcb._types import Float32, Int64
from glcb.gln.arithmetic import padded
from glcb.gln.gates import GateArrays, write_signature
from glcb.gln.predict import write_inputs


class ContextCacheArrays(NamedTuple):
    """The context that was looked at last, and what there was to see."""

    context: Float32
    signature: Int64
    """Which cell each unit opens."""
    inputs: Float32
    """What the first layer gets, padded."""


def empty_context_cache(features: int, units: int) -> ContextCacheArrays:
    """Return the sight of who has not looked at anything yet: NaN is like no context."""
    return ContextCacheArrays(
        context=np.full(features, np.nan, np.float32),
        signature=np.zeros(units, np.int64),
        inputs=np.zeros(padded(features + 1), np.float32),
    )


@kernel
def look(x: Float32, planes: GateArrays, lowest_input: float, bias: float, sight: ContextCacheArrays) -> None:
    """See ``x``, unless it was looked at last."""
    same = True
    for i in range(x.size):
        same &= x[i] == sight.context[i]
    if same:
        return
    write_signature(x, planes, sight.signature)
    write_inputs(x, lowest_input, bias, sight.inputs)
    for i in range(x.size):
        sight.context[i] = x[i]
