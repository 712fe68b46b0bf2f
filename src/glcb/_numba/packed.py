"""Many arrays as one argument of a compiled call.

A call takes time for every argument: it is looked at, unwrapped and released again, 0.15 µs for an array and
twice that when the caches are full of something else. A bandit has 25. So its kernels get one array of
numbers that says where the others are, and put the named tuple together again that holds them all.
"""

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from glcb._types import Int64

T = TypeVar("T", bound=tuple[Any, ...])

_typeof: Any = numba.typeof
named_tuple: Any = types.NamedTuple
"""Makes the compiler's type of a named tuple: of the types of its fields, and of the tuple itself."""


class Packed(Generic[T]):
    """A named tuple of arrays, floats, truth values and further such tuples, at places where it stays.

    It keeps its arrays alive. They can be changed but not exchanged, so that their places stay true.
    """

    def __init__(self, parts: T, kind: Any) -> None:
        found = _typeof(parts)
        if found != kind:
            raise TypeError(f"these parts are {found}, expected {kind}")
        self.parts = parts
        self.places: Int64 = np.array(list(_places(parts)), np.int64)


def _places(parts: tuple[Any, ...]) -> Iterator[int]:
    """Yield address and shape of every array, and the bits of every number."""
    for part in parts:
        if isinstance(part, tuple):
            yield from _places(part)
        elif isinstance(part, np.ndarray):
            yield from (part.ctypes.data, *part.shape)
        else:
            yield int(np.float64(part).view(np.int64))


if TYPE_CHECKING:

    def unpack(places: Int64, kind: object) -> Any: ...

else:

    @intrinsic
    def unpack(typing_context: Any, places: Any, kind: Any) -> Any:
        """Return the named tuple of type ``kind`` whose arrays and numbers are at ``places``."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers = context.make_array(signature.args[0])(context, builder, arguments[0])
            following = count()

            def number() -> Any:
                place = cgutils.gep_inbounds(builder, numbers.data, next(following))
                return builder.load(place)

            def value(kind: Any) -> Any:
                if isinstance(kind, types.BaseTuple):
                    return context.make_tuple(builder, kind, [value(part) for part in kind])
                if isinstance(kind, types.Array):
                    return array(kind)
                bits = builder.bitcast(number(), context.get_value_type(types.float64))
                return context.cast(builder, bits, types.float64, kind)

            def array(kind: Any) -> Any:
                result = context.make_array(kind)(context, builder)
                data = builder.inttoptr(number(), result.data.type)
                shape = [number() for _ in range(kind.ndim)]
                size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
                strides = [context.get_constant(types.intp, size)]
                for length in reversed(shape[1:]):
                    strides.insert(0, builder.mul(strides[0], length))
                populate_array(result, data, shape, strides, size, meminfo=None)
                return result._getvalue()

            return value(signature.return_type)

        return kind.instance_type(places, kind), generate
