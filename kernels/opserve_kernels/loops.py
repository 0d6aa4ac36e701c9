"""How every loop is compiled: one decorator, so that no kernel has options of its own.

A loop is compiled for the signature it names when its module is imported (so here, unlike
elsewhere, helpers stand above their callers) and kept in a cache: see loop_cache.

Numba copies what a function calls into it, and compiles all of that again with every caller. Here
only functions without a loop of their own are copied. One with a loop is called by its name, which
is bound when code is loaded: a module's import has loaded what the module calls.
"""

import dis
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from numba import config, njit  # pyright: ignore[reportMissingTypeStubs]
from numba.core.compiler import Compiler  # pyright: ignore[reportMissingTypeStubs]
from numba.core.compiler_lock import (  # pyright: ignore[reportMissingTypeStubs]
    global_compiler_lock,
)
from typing_extensions import override

from opserve_kernels.loop_cache import alone_in, folder_of

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_BACKWARD_JUMPS = {code for name, code in dis.opmap.items() if "BACKWARD" in name}
_CLOSURE = "<locals>"  # in the name of a function that another one made


def compiled(
    signature: str,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Compiles a loop for one signature: no GIL, float arithmetic as written, one thread."""
    compile_for_signature = njit(
        signature,
        nogil=True,
        cache=True,
        fastmath=False,
        parallel=False,
        error_model="numpy",
        pipeline_class=_NamingCompiler,
    )

    def compile_function(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        code = dis.Bytecode(function).codeobj
        folder = folder_of(Path(code.co_filename))
        with global_compiler_lock, alone_in(folder):
            # Numba makes its settings at run time, where type checkers cannot see them.
            config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
            dispatcher = compile_for_signature(function)
        loops = not _BACKWARD_JUMPS.isdisjoint(code.co_code[::2])
        if loops and _CLOSURE not in function.__qualname__:
            _call_by_name(dispatcher)
        return dispatcher

    return compile_function


class _NamingCompiler(Compiler):
    """Names a function by its module and types; numba adds a number that differs by process.

    Closures keep the number: functions of one name may differ in what they enclose.
    """

    @override
    def define_pipelines(self) -> Any:
        state: Any = self.state
        if _CLOSURE not in state.func_id.func_qualname:
            state.func_id.unique_id = None
        return super().define_pipelines()  # type: ignore[no-untyped-call]


def _call_by_name(dispatcher: Any) -> None:  # noqa: ANN401  # numba's
    """Makes callers that are compiled from now on declare the function, not contain it."""
    (result,) = dispatcher.overloads.values()
    context = result.target_context
    context.remove_user_function(result.entry_point)
    context.insert_user_function(result.entry_point, result.fndesc)
