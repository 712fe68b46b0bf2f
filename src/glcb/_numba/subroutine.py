"""A compiler for kernels that only other kernels call.

Numba optimizes every compiled function to the end, emits its machine code and adds a wrapper that Python can
call. The callers then link the optimized function and optimize it once more together with their own code, at
every level. For a kernel that only other kernels call, all but the last time is wasted.

This compiler stops after the translation to LLVM's intermediate code, which callers link. Small kernels are
still optimized on their own first: those that call no other kernel, and those that call only such kernels.
They contain the sums, whose last bits depend on when they are vectorized.
"""

# mypy: disable-error-code="no-untyped-call"

from typing import Any

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

_MAX_SMALL = 1
"""A kernel is small if its calls of kernels are nested at most this deep."""


class _SubroutineLibrary(JITCodeLibrary):
    """Intermediate code for linking. No machine code is emitted."""

    depth = 0
    """How deep calls of kernels are nested."""

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


class SubroutineCompiler(CompilerBase):
    """Numba's usual pipeline, without the generation of machine code."""

    def define_pipelines(self) -> list[Any]:
        """Return the usual pipeline with another last step."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (_SubroutineLowering if step is NativeLowering else step, description)
            for step, description in pipeline.passes
        ]
        pipeline.finalize()
        return [pipeline]


def set_environments(result: Any) -> None:
    """Give the subroutines in a compiled kernel their Python objects, such as arguments of exceptions."""
    for environment in result._find_referenced_environments():
        result.library.codegen.set_env(environment.env_name, environment)
