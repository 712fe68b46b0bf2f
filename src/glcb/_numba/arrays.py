"""New arrays, and parts of arrays, for kernels.

``np.empty``, ``reshape``, ``ravel`` and slices support all shapes and layouts, negative indices and errors,
and each takes up to a tenth of a second to compile. These functions are for vectors and matrices in C order,
and check only that there is enough memory.
"""

# mypy: disable-error-code="no-untyped-call"

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numba.core import types
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_borrowed, impl_ret_new_ref
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

A = TypeVar("A", bound=np.ndarray)

_ALIGNMENT = 32
"""Alignment in bytes, as for Numba's arrays: the width of vector loads."""


def make_array(
    context: Any,
    builder: Any,
    kind: Any,
    data: Any,
    shape: list[Any],
    meminfo: Any = None,
    parent: Any = None,
) -> Any:
    """Return an array in C order whose elements are at ``data``, owned by ``meminfo`` and ``parent``."""
    array = context.make_array(kind)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [context.get_constant(types.intp, size)]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length))
    populate_array(array, data, shape, strides, size, meminfo, parent)
    return array._getvalue()


def _allocate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return a new array; the arguments are its type and its shape."""
    kind, shape = signature.return_type, list(arguments[1:])
    element = context.get_data_type(kind.dtype)
    size = context.get_constant(types.intp, context.get_abi_sizeof(element))
    for length in shape:
        size = builder.mul(size, length)
    alignment = context.get_constant(types.uint32, _ALIGNMENT)
    owner = context.nrt.meminfo_alloc_aligned(builder, size, alignment)
    data = builder.bitcast(context.nrt.meminfo_data(builder, owner), element.as_pointer())
    array = make_array(context, builder, kind, data, shape, meminfo=owner)
    return impl_ret_new_ref(context, builder, kind, array)


def _view(context: Any, builder: Any, kind: Any, array: Any, start: Any, shape: list[Any]) -> Any:
    """Return a view of the elements from ``start`` on, which keeps the array alive."""
    data = builder.gep(array.data, [start])
    view = make_array(context, builder, kind, data, shape, meminfo=array.meminfo, parent=array.parent)
    return impl_ret_borrowed(context, builder, kind, view)


def _check(array: Any, ndim: int) -> None:
    if array.layout != "C" or array.ndim != ndim:
        raise TypingError(f"expected an array with {ndim} dimensions in C order, got {array}")


if TYPE_CHECKING:

    def new_vector(kind: type[np.generic], size: int) -> Any: ...

    def new_matrix(kind: type[np.generic], rows: int, columns: int) -> Any: ...

    def as_matrix(numbers: A, start: int, rows: int, columns: int) -> A: ...

    def as_vector(matrix: A) -> A: ...

else:

    @intrinsic
    def new_vector(typing_context: Any, kind: Any, size: Any) -> Any:
        """Return a vector whose elements are not set."""
        return types.Array(kind.dtype, 1, "C")(kind, types.intp), _allocate

    @intrinsic
    def new_matrix(typing_context: Any, kind: Any, rows: Any, columns: Any) -> Any:
        """Return a matrix whose elements are not set."""
        return types.Array(kind.dtype, 2, "C")(kind, types.intp, types.intp), _allocate

    @intrinsic
    def as_matrix(typing_context: Any, numbers: Any, start: Any, rows: Any, columns: Any) -> Any:
        """Return the elements of a vector from ``start`` on as the rows of a matrix."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            return _view(context, builder, signature.return_type, array, arguments[1], list(arguments[2:]))

        _check(numbers, 1)
        kind = types.Array(numbers.dtype, 2, "C")
        return kind(numbers, types.intp, types.intp, types.intp), generate

    @intrinsic
    def as_vector(typing_context: Any, matrix: Any) -> Any:
        """Return all elements of a matrix."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            start = context.get_constant(types.intp, 0)
            return _view(context, builder, signature.return_type, array, start, [array.nitems])

        _check(matrix, 2)
        return types.Array(matrix.dtype, 1, "C")(matrix), generate
