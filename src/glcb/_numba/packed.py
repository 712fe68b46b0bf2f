"""Pass many arrays to a compiled function as one argument.

A call costs time for every argument, because Numba inspects, unboxes and releases each one: 0.15 µs per
array, and twice as much when the caches are cold. A GLCB policy has 25 arrays. Its kernels therefore receive
a single array with the addresses and shapes of the others, and rebuild the named tuple that holds them.
"""

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from glcb._arrays import Int64

T = TypeVar("T", bound=tuple[Any, ...])

_typeof: Any = numba.typeof


def named_tuple_type(cls: type[tuple[Any, ...]], *fields: Any) -> Any:
    """Return the Numba type of the named tuple ``cls`` with fields of these Numba types."""
    make_type: Any = types.NamedTuple
    return make_type(fields, cls)


class PackedArguments(Generic[T]):
    """The addresses of a named tuple of C-contiguous arrays, floats, booleans and further such tuples.

    It keeps the arrays alive. Their contents may change, but an array must not be replaced by another one.
    """

    def __init__(self, arrays: T, numba_type: Any) -> None:
        actual = _typeof(arrays)
        if actual != numba_type:
            raise TypeError(f"the arrays have the type {actual}, expected {numba_type}")
        self.arrays = arrays
        self.addresses: Int64 = np.array(list(_addresses(arrays)), np.int64)


def _addresses(fields: tuple[Any, ...]) -> Iterator[int]:
    """Yield the address and shape of every array, and the bits of every number."""
    for field in fields:
        if isinstance(field, tuple):
            yield from _addresses(field)
        elif isinstance(field, np.ndarray):
            yield from (field.ctypes.data, *field.shape)
        else:
            yield int(np.float64(field).view(np.int64))


if TYPE_CHECKING:

    def unpack(addresses: Int64, numba_type: object) -> Any: ...

else:

    @intrinsic
    def unpack(typing_context: Any, addresses: Any, numba_type: Any) -> Any:
        """Return the named tuple of type ``numba_type`` that was packed into ``addresses``."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers = context.make_array(signature.args[0])(context, builder, arguments[0])
            position = count()

            def next_number() -> Any:
                pointer = cgutils.gep_inbounds(builder, numbers.data, next(position))
                return builder.load(pointer)

            def value(kind: Any) -> Any:
                if isinstance(kind, types.BaseTuple):
                    return context.make_tuple(builder, kind, [value(field) for field in kind])
                if isinstance(kind, types.Array):
                    return array(kind)
                bits = builder.bitcast(next_number(), context.get_value_type(types.float64))
                return context.cast(builder, bits, types.float64, kind)

            def array(kind: Any) -> Any:
                result = context.make_array(kind)(context, builder)
                data = builder.inttoptr(next_number(), result.data.type)
                shape = [next_number() for _ in range(kind.ndim)]
                size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
                strides = [context.get_constant(types.intp, size)]
                for length in reversed(shape[1:]):
                    strides.insert(0, builder.mul(strides[0], length))
                populate_array(result, data, shape, strides, size, meminfo=None)
                return result._getvalue()

            return value(signature.return_type)

        return numba_type.instance_type(addresses, numba_type), generate
