"""Prefetching: load memory into the CPU caches before it is needed."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from glcb._numba.compile import kernel

_LINE = 64
"""Bytes per cache line."""
_READ, _KEEP, _DATA = 0, 3, 1


if TYPE_CHECKING:

    def _prefetch_line(numbers: np.ndarray, index: int) -> None: ...

else:

    @intrinsic
    def _prefetch_line(typing_context: Any, numbers: Any, index: Any) -> Any:
        """Prefetch the cache line that holds one element. The instruction does not block."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            pointer = builder.bitcast(builder.gep(array.data, [arguments[1]]), cgutils.voidptr_t)
            flags = [cgutils.int32_t(flag) for flag in (_READ, _KEEP, _DATA)]
            kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [pointer.type, *(f.type for f in flags)])
            instruction = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
            builder.call(instruction, [pointer, *flags])
            return context.get_dummy_value()

        return types.void(numbers, types.intp), generate


@kernel
def prefetch(numbers: np.ndarray, start: int, count: int) -> None:
    """Prefetch about ``count`` elements from ``start`` on.

    A last cache line that holds only the final few elements may be skipped.
    """
    for i in range(start, start + count, _LINE // numbers.itemsize):
        _prefetch_line(numbers, i)
