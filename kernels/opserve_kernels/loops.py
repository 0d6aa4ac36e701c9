"""How every loop is compiled: two decorators, so that no kernel has options of its own.

`entry` is for what Python calls, `compiled` for what loops call: a way in from Python takes as
long to compile as a small loop, and a worker as long to load. Each is compiled for the signature
that it names (so here, unlike elsewhere, helpers stand above their callers).

Numba copies what a function calls into it, and compiles all of that again with every caller. Here
only functions without a loop of their own are copied; they are compiled when a caller is. One with
a loop is called by its name, which is bound when code is loaded: a module's import has loaded what
the module calls. Such loops and entries are compiled by the import and kept: see loop_cache.
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

from opserve_kernels.loop_cache import alone_in, folder_of
from opserve_kernels.records import Record, dtype_of, is_record

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_BACKWARD_JUMPS = {code for name, code in dis.opmap.items() if "BACKWARD" in name}
_CLOSURE = "<locals>"  # in the name of a function that another one made
_SCALARS: dict[Any, Any] = {
    int: types.int64,
    bool: types.boolean,
    np.float32: types.float32,
    np.float64: types.float64,
    type(None): types.void,
}
_OPTIONS = {
    "nopython": True,
    "nogil": True,
    "fastmath": False,
    "parallel": False,
    "error_model": "numpy",
    "boundscheck": None,
    "no_cfunc_wrapper": True,
}


def compiled(
    signature: str | None = None,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Compiles what loops call: no GIL, float arithmetic as written, one thread.

    Args:
        signature: Types of the result and the arguments; None for those of the annotations, in
            which an int has 64 bits, arrays have one contiguous axis, and a record is one of
            opserve_kernels.records.
    """

    def declare(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        declared = signature or _annotated(function)
        loop: Any = _Loop(function, declared)
        with _folder_of(function):
            if _is_called_by_name(function):
                _keep(loop, declared)
        return loop  # type: ignore[no-any-return]  # numba's

    return declare


def entry(
    signature: str | None = None,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Compiles what Python calls; loops may call it, too. The argument is that of `compiled`."""

    def declare(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        dispatcher: Any = CPUDispatcher(
            function, targetoptions=_OPTIONS, pipeline_class=_NamingCompiler
        )
        with _folder_of(function):
            _keep(dispatcher, signature or _annotated(function))
        return dispatcher  # type: ignore[no-any-return]  # numba's

    return declare


def reading(record: type[Record]) -> Callable[[NDArray[Any]], Record]:
    """A function of loops: the record that a row is. Numba's view takes far longer to compile."""
    kind: Any = from_dtype(dtype_of(record))

    def typed(_context: Any, row: Any) -> Any:  # noqa: ANN401  # numba's
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401  # numba's
            row = context.make_array(*signature.args)(context, builder, *arguments)
            return builder.bitcast(row.data, context.get_value_type(kind))

        return kind(row), generate

    viewed: Any = intrinsic(typed)
    return viewed  # type: ignore[no-any-return]  # numba's


def _annotated(function: Callable[..., Any]) -> Any:  # noqa: ANN401  # numba's
    """The signature that a function's annotations stand for."""
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

    Closures keep the number: functions of one name may differ in what they enclose.
    """

    @override
    def define_pipelines(self) -> Any:
        state: Any = self.state
        if _CLOSURE not in state.func_id.func_qualname:
            state.func_id.unique_id = None
        return super().define_pipelines()  # type: ignore[no-untyped-call]


class _Loop(CPUDispatcher):
    """A function that loops call. Numba's type inference asks for it by `get_call_template`."""

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:  # noqa: ANN401  # numba's
        options = _OPTIONS | {"no_cpython_wrapper": True}
        super().__init__(function, targetoptions=options, pipeline_class=_NamingCompiler)
        self._declared = signature

    @override
    def get_call_template(self, args: Any, kws: Any) -> Any:
        if not self.overloads:
            _compile(self, self._declared)
        return super().get_call_template(args, kws)

    @override
    def __call__(self, *arguments: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A way in from Python is compiled when it is first gone, which only tests do."""
        return self._for_python(*arguments)

    @cached_property
    def _for_python(self) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:  # noqa: ANN401  # any loop's
            return self(*arguments)

        return CPUDispatcher(call, targetoptions=_OPTIONS)


def _is_called_by_name(function: Callable[..., Any]) -> bool:
    """True for one with a loop, but for closures."""
    code = dis.Bytecode(function).codeobj
    loops = not _BACKWARD_JUMPS.isdisjoint(code.co_code[::2])
    return loops and _CLOSURE not in function.__qualname__


@contextmanager
def _folder_of(function: Callable[..., Any]) -> Generator[None]:
    """Where numba keeps what is compiled meanwhile; other processes wait."""
    folder = folder_of(Path(function.__code__.co_filename))
    with global_compiler_lock, alone_in(folder), _collector_paused():
        # Numba makes its settings at run time, where type checkers cannot see them.
        config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        yield


def _keep(dispatcher: Any, signature: Any) -> None:  # noqa: ANN401  # numba's
    """Compiles a function, or loads what another process has compiled."""
    dispatcher.enable_caching()
    _compile(dispatcher, signature)
    if _is_called_by_name(dispatcher.py_func):
        _call_by_name(dispatcher)


def _compile(dispatcher: Any, signature: Any) -> None:  # noqa: ANN401  # numba's
    dispatcher.compile(signature)
    dispatcher.disable_compile()


@contextmanager
def _collector_paused() -> Generator[None]:
    """What compiling makes has few cycles; looking for them takes a tenth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _call_by_name(dispatcher: Any) -> None:  # noqa: ANN401  # numba's
    """Makes callers that are compiled from now on declare the function, not contain it."""
    (result,) = dispatcher.overloads.values()
    context = result.target_context
    context.remove_user_function(result.entry_point)
    context.insert_user_function(result.entry_point, result.fndesc)
