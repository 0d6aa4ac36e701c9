"""Compilation of every loop: three decorators, so that all kernels have the same options.

`entry` is for functions that Python calls, `compiled` for functions that loops call, and `inlined`
for those that make views: an entry point from Python takes as long to compile, and a worker as long
to load, as a small loop. Each function is compiled for the signature that it names (so here, unlike
elsewhere, helpers are above their callers).

Numba copies a called function into its caller, and compiles all of it again with every caller. Here
only functions without a loop are copied; they are compiled with their callers. A function with a
loop is called by its name, which is bound when code is loaded: a module's import has already loaded
the functions that the module calls. Importing a module compiles such loops and entries, and caches
them: see loop_cache.
"""

import dis
import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numba import (  # pyright: ignore[reportMissingTypeStubs]
    config,
    from_dtype,
    types,
)
from numba.core.compiler import Compiler  # pyright: ignore[reportMissingTypeStubs]
from numba.core.compiler_lock import (  # pyright: ignore[reportMissingTypeStubs]
    global_compiler_lock,
)
from numba.core.registry import CPUDispatcher  # pyright: ignore[reportMissingTypeStubs]
from numba.extending import intrinsic  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray
from typing_extensions import override

from opserve_kernels.loop_cache import folder_of, locked
from opserve_kernels.records import Record, dtype_of, is_record

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Loops are found in the bytecode: a `for` or `while` jumps backward.
_BACKWARD_JUMPS = {code for name, code in dis.opmap.items() if "BACKWARD" in name}
_CLOSURE = "<locals>"  # in the name of a function defined in another one
_SCALARS: dict[Any, Any] = {
    int: types.int64,
    bool: types.boolean,
    np.float32: types.float32,
    np.float64: types.float64,
    type(None): types.void,
}
# No fastmath: results must not depend on how LLVM orders sums. No parallel loops: threads are the
# shares of a plan. No C wrapper: nothing calls through a C pointer. No counts of references, _nrt:
# callers hold all arrays, and counting them took up to half of the time of a call.
_OPTIONS = {
    "nopython": True,
    "nogil": True,
    "fastmath": False,
    "parallel": False,
    "error_model": "numpy",
    "boundscheck": None,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}


def compiled(
    signature: str | None = None,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Compiles a function that loops call: no GIL, float arithmetic as written, one thread.

    Args:
        signature: Types of the result and the arguments; None takes those of the annotations: an
            int has 64 bits, arrays have one contiguous axis, and a record is one of
            opserve_kernels.records.
    """

    def declare(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        declared = signature or _annotated(function)
        loop: Any = _Loop(function, declared)
        # A function without a loop is not cached on its own: its callers contain it.
        with _folder_of(function):
            if _is_called_by_name(function):
                _keep(loop, declared)
        return loop  # type: ignore[no-any-return]  # numba's

    return declare


def entry(
    signature: str | None = None,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Compiles a function that Python and loops may call; the argument is as for `compiled`."""

    def declare(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        dispatcher: Any = CPUDispatcher(
            function, targetoptions=_OPTIONS, pipeline_class=_NamingCompiler
        )
        with _folder_of(function):
            _keep(dispatcher, signature or _annotated(function))
        return dispatcher  # type: ignore[no-any-return]  # numba's

    return declare


def inlined(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A function that Python calls as it is, and whose statements numba copies into loops.

    Without counts of references, numba lets no loop return a view that it made: the view is made
    where it is used.
    """
    copied: Any = _Inlined(function, targetoptions=_OPTIONS | {"inline": "always"})
    return copied  # type: ignore[no-any-return]  # numba's


def reading(record: type[Record]) -> Callable[[NDArray[Any]], Record]:
    """A function for loops: the record in a row. Numba's own view compiles far slower."""
    kind: Any = from_dtype(dtype_of(record))

    def typed(_context: Any, row: Any) -> Any:  # noqa: ANN401  # numba's
        # The row's data pointer is the record's: records are passed by reference, and nothing is
        # copied.
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401  # numba's
            row = context.make_array(*signature.args)(context, builder, *arguments)
            return builder.bitcast(row.data, context.get_value_type(kind))

        return kind(row), generate

    viewed: Any = intrinsic(typed)
    return viewed  # type: ignore[no-any-return]  # numba's


def _annotated(function: Callable[..., Any]) -> Any:  # noqa: ANN401  # numba's
    """The signature of a function's annotations."""
    hints = get_type_hints(function)
    result = _numba_type(hints.pop("return"))
    return result(*map(_numba_type, hints.values()))


def _numba_type(hint: Any) -> Any:  # noqa: ANN401  # an annotation, numba's
    if hint in _SCALARS:
        return _SCALARS[hint]
    if is_record(hint):
        return from_dtype(dtype_of(hint))
    origin: Any = get_origin(hint)
    made: Any = types  # without types
    if is_record(origin):  # of numbers of one type, which are passed by value
        (number,) = get_args(hint)
        return made.NamedUniTuple(_numba_type(number), len(origin._fields), origin)
    if origin is tuple:
        return made.Tuple([_numba_type(part) for part in get_args(hint)])
    _, element = get_args(hint)  # of NDArray: any shape, and the dtype
    return types.Array(from_dtype(np.dtype(*get_args(element))), 1, "C")


class _NamingCompiler(Compiler):
    """Names a function by its module and types; numba adds a number that differs by process.

    Closures keep the number: functions of one name may differ in their enclosed values.
    """

    @override
    def define_pipelines(self) -> Any:
        state: Any = self.state
        # Without the number, code cached by one process can be bound by name in another.
        if _CLOSURE not in state.func_id.func_qualname:
            state.func_id.unique_id = None
        return super().define_pipelines()  # type: ignore[no-untyped-call]


class _Inlined(CPUDispatcher):
    """A function whose statements its callers contain."""

    @override
    def __call__(self, *arguments: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.py_func(*arguments)


class _Loop(CPUDispatcher):
    """A function that loops call; numba's type inference looks it up by `get_call_template`."""

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:  # noqa: ANN401  # numba's
        options = _OPTIONS | {"no_cpython_wrapper": True}
        super().__init__(function, targetoptions=options, pipeline_class=_NamingCompiler)
        self._declared = signature

    @override
    def get_call_template(self, args: Any, kws: Any) -> Any:
        # A function without a loop is compiled here, with its first caller.
        if not self.overloads:
            _compile(self, self._declared)
        return super().get_call_template(args, kws)

    @override
    def __call__(self, *arguments: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Compiles an entry point from Python on the first such call, which only tests make."""
        return self._for_python(*arguments)

    @cached_property
    def _for_python(self) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:  # noqa: ANN401  # any loop's
            return self(*arguments)

        return CPUDispatcher(call, targetoptions=_OPTIONS)


def _is_called_by_name(function: Callable[..., Any]) -> bool:
    """Whether a function has a loop and is no closure."""
    code = dis.Bytecode(function).codeobj
    loops = not _BACKWARD_JUMPS.isdisjoint(code.co_code[::2])
    return loops and _CLOSURE not in function.__qualname__


@contextmanager
def _folder_of(function: Callable[..., Any]) -> Generator[None]:
    """Numba's cache folder for what is compiled meanwhile, locked against other processes."""
    folder = folder_of(Path(function.__code__.co_filename))
    with global_compiler_lock, locked(folder), _collector_paused():
        # Numba makes its settings at run time, where type checkers cannot see them.
        config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        yield


def _keep(dispatcher: Any, signature: Any) -> None:  # noqa: ANN401  # numba's
    """Compiles a function, or loads it from the cache."""
    dispatcher.enable_caching()
    _compile(dispatcher, signature)
    if _is_called_by_name(dispatcher.py_func):
        _call_by_name(dispatcher)


def _compile(dispatcher: Any, signature: Any) -> None:  # noqa: ANN401  # numba's
    dispatcher.compile(signature)
    dispatcher.disable_compile()


@contextmanager
def _collector_paused() -> Generator[None]:
    """Pauses garbage collection: compiling makes few cycles, looking for them takes a tenth."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _call_by_name(dispatcher: Any) -> None:  # noqa: ANN401  # numba's
    """Makes later callers declare the function instead of containing it."""
    # Numba registers a compiled function with the library that contains its code, which callers
    # link in. Registered again without the library, it is an external symbol.
    (result,) = dispatcher.overloads.values()
    context = result.target_context
    context.remove_user_function(result.entry_point)
    context.insert_user_function(result.entry_point, result.fndesc)
    # Nothing links its intermediate code any more, which took a quarter of a worker's memory.
    result.library._shared_module = None  # noqa: SLF001  # numba never drops it
