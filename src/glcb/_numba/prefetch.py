"""Asking for memory before it is needed."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from glcb._numba.compile import kernel

_LINE = 64
"""Bytes of a cache line."""
_READ, _KEEP, _DATA = 0, 3, 1


if TYPE_CHECKING:

    def _ask(numbers: np.ndarray, index: int) -> None: ...

else:

    @intrinsic
    def _ask(typing_context: Any, numbers: Any, index: Any) -> Any:
        """Ask for the cache line that holds one number; nothing waits for it."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            place = builder.bitcast(builder.gep(array.data, [arguments[1]]), cgutils.voidptr_t)
            flags = [cgutils.int32_t(flag) for flag in (_READ, _KEEP, _DATA)]
            kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [place.type, *(f.type for f in flags)])
            instruction = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
            builder.call(instruction, [place, *flags])
            return context.get_dummy_value()

        return types.void(numbers, types.intp), generate


@kernel
def prefetch(numbers: np.ndarray, start: int, count: int) -> None:
    """Ask for ``count`` numbers from ``start`` on, but for the last few if a cache line begins with them."""
    for i in range(start, start + count, _LINE // numbers.itemsize):
        _ask(numbers, i)
