"""A compiler for kernels that only other kernels call.

Numba optimizes every compiled function to the end, emits its machine code and adds a wrapper that Python can
call. The callers then link the optimized function and optimize it once more together with their own code, at
every level. For a kernel that only other kernels call, all but the last time is wasted.

This compiler stops after the translation to LLVM's intermediate code, which callers link. Small kernels are
still optimized on their own first: those that call no other kernel, and those that call only such kernels.
They contain the sums, whose last bits depend on when they are vectorized. Numba's own functions, such as
``max`` and ``np.empty``, are compiled in the same way for kernels, and their types are remembered.

This module uses internals of Numba. If it cannot be imported, ``glcb._numba.compile`` does without it, and if
an example does not compile, kernels link each other as Numba links all functions. Only the speed differs.
"""

# mypy: disable-error-code="no-untyped-call"

import gc
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import NativeLowering
from numba.core.types.functions import BaseFunction
from numba.core.typing.templates import _OverloadFunctionTemplate

from glcb._numba.interrupts import hold_back_interrupts

_find_environments = CompileResult._find_referenced_environments
_set_environment = JITCPUCodegen.set_env
_usual_decorator = _OverloadFunctionTemplate._get_jit_decorator
_usual_call_type = BaseFunction.get_call_type

_MAX_SMALL = 1
"""A kernel is small if its calls of kernels are nested at most this deep."""


_DEFAULT_FLAGS = Flags().values()
_FLAGS_HASH = hash(Flags())


class _Flags(Flags):
    """Numba's flags, compared without calling a function for each of them.

    Numba compares them for every function that it considers for every call: hundreds of thousands of
    times per kernel.
    """

    def values(self) -> dict[str, Any]:
        """Return all flags."""
        values: dict[str, Any] = _DEFAULT_FLAGS | self._values
        return values

    def __hash__(self) -> int:
        return _FLAGS_HASH  # the hash of all flags in Numba: their values do not matter


class _SubroutineLibrary(JITCodeLibrary):
    """Intermediate code for linking. No machine code is emitted."""

    depth = 0
    """How deep calls of kernels are nested."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Skip declarations, which have nothing to optimize."""
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                try:
                    passes, builder = self._codegen._function_pass_manager()
                except TypeError:  # before Numba 0.62
                    super()._optimize_functions(ll_module)
                    return
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        called = [each for each in self._linking_libraries if isinstance(each, _SubroutineLibrary)]
        self.depth = 1 + max((each.depth for each in called), default=-1)
        if self.depth <= _MAX_SMALL:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _SubroutineLowering(NativeLowering):
    """Translate to intermediate code and make it available to callers."""

    _name = "glcb_subroutine_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _SubroutineLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        # Only this step has other flags. Numba compiles its own functions once per set of flags.
        flags = state.flags
        state.flags = flags.copy()
        state.flags.no_compile = state.flags.no_cpython_wrapper = True
        super().run_pass(state)
        state.flags = flags
        lowered = state["cr"]
        # Callers find the code by the object that Python would call. It has no address and is never called.
        name, module = state.func_id.func_name, lowered.fndesc.lookup_module()
        key = _dynfunc.make_function(module, name, "", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=key)
        return True


class _KernelCompiler(CompilerBase):
    """Numba's usual pipeline."""

    def __init__(
        self, typing: Any, target: Any, library: Any, args: Any, result: Any, flags: Any, types: Any
    ) -> None:
        super().__init__(typing, target, library, args, result, _Flags(flags), types)

    def define_pipelines(self) -> list[Any]:
        """Return the usual pipeline."""
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]


class _SubroutineCompiler(_KernelCompiler):
    """The usual pipeline without the generation of machine code."""

    def define_pipelines(self) -> list[Any]:
        """Return the usual pipeline with another last step."""
        [pipeline] = super().define_pipelines()
        pipeline.passes = [
            (_SubroutineLowering if step is NativeLowering else step, description)
            for step, description in pipeline.passes
        ]
        pipeline.finalize()
        return [pipeline]


def _subroutine(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    return CPUDispatcher(py_func=function, targetoptions=options, pipeline_class=_SubroutineCompiler)


def _decorator(template: Any) -> Any:
    """Return the decorator for one of Numba's own functions: a subroutine if a kernel calls it.

    Numba compiles such a function once per set of flags. Functions of other programs share it only if they
    have the same flags, and can link it, too.
    """
    if not isinstance(ConfigStack.top_or_none(), _Flags):
        return _usual_decorator(template)
    return lambda **options: lambda function: _subroutine(function, {"nopython": True, **options})


_call_types: dict[Any, tuple[Any, Any]] = {}
"""Signatures and implementations of the calls of Numba's functions, by function and types of arguments."""


def _call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return the signature of a call of one of Numba's functions, and remember it for kernels.

    To find it, Numba tries all implementations of the function. It does so for every call in every pass over
    a kernel: ten times as often as there are different calls. All kernels have the same flags, on which the
    implementation of a function can depend.
    """
    if not isinstance(ConfigStack.top_or_none(), _Flags):
        return _usual_call_type(function, context, args, kws)
    key = function, tuple(args), tuple(kws.items())
    if key not in _call_types:
        signature = _usual_call_type(function, context, args, kws)
        _call_types[key] = signature, function.get_impl_key(signature)
    signature, implementation = _call_types[key]
    function._impl_keys[signature.args] = implementation
    return signature


class _Kernel(CPUDispatcher):
    """A compiled function for callers in Python. Other kernels link its subroutine."""

    before_compiling: Callable[[], None] | None = None

    @cached_property
    def subroutine(self) -> Any:
        """What other kernels call."""
        return _subroutine(self.py_func, self.targetoptions)

    @property
    def _numba_type_(self) -> Any:
        return self.subroutine._numba_type_ if _works() else super()._numba_type_

    def add_overload(self, cres: Any) -> None:
        """Add machine code, and give its subroutines their Python objects: arguments of exceptions."""
        for environment in _find_environments(cres):
            _set_environment(cres.library.codegen, environment.env_name, environment)
        super().add_overload(cres)

    def compile(self, sig: Any) -> Any:
        """Load a kernel from the cache, or compile it, without interrupts."""
        if self.before_compiling is not None:
            self.before_compiling()
        return hold_back_interrupts(lambda: self._compile(sig))

    def _compile(self, sig: Any) -> Any:
        """Compile without garbage collection, which would take a tenth of the time and find nothing."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            return super().compile(sig)
        finally:
            if collecting:
                if gc.get_freeze_count() == 0:
                    # Count all objects as old, or a collection of the new ones would follow.
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()


def jit(cache: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator like ``numba.njit``, for functions that also call each other."""

    def compiled(function: Callable[..., Any]) -> Any:
        # The functions have no callers in C.
        kernel = _Kernel(
            py_func=function,
            targetoptions={"nopython": True, "no_cfunc_wrapper": True, **options},
            pipeline_class=_KernelCompiler,
        )
        if cache:
            kernel.enable_caching()
        return kernel

    return compiled


@jit()
def _inner(x: float) -> float:
    if x < 0:
        raise ValueError(x)
    return max(x, 0.5)


_inner_subroutine = _inner.subroutine
_outer = jit()(lambda x: _inner_subroutine(x) + 1)


@cache
def _works() -> bool:
    """Compile and call an example; return whether this version of Numba links subroutines."""
    template: Any = _OverloadFunctionTemplate
    functions: Any = BaseFunction
    template._get_jit_decorator = _decorator
    functions.get_call_type = _call_type
    works = False
    try:
        if _outer(1.0) == 2.0:
            _outer(-1.0)
    except ValueError as error:
        works = error.args == (-1.0,)
    except Exception:  # internals can fail in any way
        works = False
    _call_types.clear()  # the example has other flags than kernels
    if not works:
        template._get_jit_decorator = _usual_decorator
        functions.get_call_type = _usual_call_type
    return works
