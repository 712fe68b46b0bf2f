"""Pass many arrays to a compiled function as one argument.

A call costs time for every argument, because Numba inspects, unboxes and releases each one: 0.15 µs per
array, and twice as much when the caches are cold. A GLCB policy has 25 arrays. Its kernels therefore receive
a single array with the addresses and shapes of all arrays, and read them through a view of it.
"""

# mypy: disable-error-code="no-untyped-call"

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numba
import numpy as np
from numba.core import cgutils, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model

from glcb._arrays import Int64
from glcb._numba.arrays import make_array

T = TypeVar("T", bound=tuple[Any, ...])

_typeof: Any = numba.typeof


def named_tuple_type(cls: type[tuple[Any, ...]], *fields: Any) -> Any:
    """Return the Numba type of the named tuple ``cls`` with fields of these Numba types."""
    make_type: Any = types.NamedTuple
    return make_type(fields, cls)


class PackedArguments(Generic[T]):
    """The addresses of a named tuple of C-contiguous arrays, floats, booleans and further such tuples.

    It keeps the arrays alive. Their contents may change, but an array must not be replaced.
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


class View(types.Type):
    """The Numba type of packed arguments: like the named tuple, but nothing is read before it is used.

    A kernel passes a view on as one pointer. Named tuples would be passed as hundreds of values, and would
    take longer to compile.
    """

    def __init__(self, tuple_type: Any) -> None:
        self.tuple_type = tuple_type
        super().__init__(name=f"View({tuple_type.fields}, {tuple_type})")

    def field(self, name: str) -> tuple[Any, int]:
        """Return the type of a field and the position of its first number."""
        index = self.tuple_type.fields.index(name)
        return self.tuple_type[index], sum(map(_numbers, self.tuple_type.types[:index]))


def _numbers(kind: Any) -> int:
    """Return how many numbers a field occupies."""
    if isinstance(kind, types.BaseTuple):
        fields: Any = kind
        return sum(map(_numbers, fields))
    return 1 + kind.ndim if isinstance(kind, types.Array) else 1


@register_model(View)
class _ViewModel(models.PrimitiveModel):
    def __init__(self, manager: Any, view: View) -> None:
        super().__init__(manager, view, cgutils.intp_t.as_pointer())


@infer_getattr
class _ViewFields(AttributeTemplate):
    key = View

    def generic_resolve(self, value: Any, attr: str) -> Any:  # type: ignore[override]
        """Return the type of a field; None if there is no such field."""
        if attr not in value.tuple_type.fields:
            return None
        kind, _ = value.field(attr)
        return View(kind) if isinstance(kind, types.BaseTuple) else kind


@lower_getattr_generic(View)  # type: ignore[untyped-decorator]
def _read_field(context: Any, builder: Any, view: View, pointer: Any, name: str) -> Any:
    kind, start = view.field(name)

    def number(position: int) -> Any:
        load = builder.load(cgutils.gep_inbounds(builder, pointer, start + position))
        # No kernel changes the numbers: they can be read once, before a loop.
        load.set_metadata("invariant.load", builder.module.add_metadata([]))
        return load

    if isinstance(kind, types.BaseTuple):
        return cgutils.gep_inbounds(builder, pointer, start)
    if isinstance(kind, types.Array):
        pointer_type = context.get_data_type(kind.dtype).as_pointer()
        shape = [number(1 + axis) for axis in range(kind.ndim)]
        return make_array(context, builder, kind, builder.inttoptr(number(0), pointer_type), shape)
    bits = builder.bitcast(number(0), context.get_value_type(types.float64))
    return context.cast(builder, bits, types.float64, kind)


if TYPE_CHECKING:

    def unpack(addresses: Int64, numba_type: object) -> Any: ...

else:

    @intrinsic
    def unpack(typing_context: Any, addresses: Any, numba_type: Any) -> Any:
        """Return a view of the named tuple of type ``numba_type`` that was packed into ``addresses``."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.make_array(signature.args[0])(context, builder, arguments[0]).data

        return View(numba_type.instance_type)(addresses, numba_type), generate
