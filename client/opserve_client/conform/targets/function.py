"""Python functions as targets: "package.module:function"."""

import inspect
import sys
import traceback
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from time import perf_counter
from typing import Any, cast

from opserve_client.conform.targets.target import InfrastructureError
from opserve_client.operators import OPERATORS
from opserve_kernels.array_like import as_array
from opserve_kernels.cases.arrays import Placed, placed_in
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.conformance.target import Broken, Missing, Outcome, Ran, without_codes
from opserve_kernels.errors import closed
from opserve_kernels.user_input import similar_name
from opserve_kernels.verdict.judge_case import Arrays

Function = Callable[..., Any]
_LIBRARIES = "site-packages"
_KEYWORDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Called:
    """A function of NumPy arrays and its calling convention; snippets in reports use it too.

    The function receives keyword arguments for its parameters: the case's inputs (arrays), its
    other arguments, "operator", "profile", "formats" (of all tensors by name, such as "NDHWC"), and
    outputs (arrays full of NaN). With **keywords it receives all but the formats and outputs. It
    returns the outputs: a dict by name, a tuple in the operator's order (None for a missing one),
    or one array; None if it wrote into all output arrays. It raises NotImplementedError for a case
    that it does not implement.

    Args:
        function: The function.
        operator: The only operator that it computes; "" means any.
    """

    def __init__(self, function: Function, operator: str = "") -> None:
        self._function, self._operator = function, operator
        parameters = inspect.signature(function).parameters.values()
        self._names = {one.name for one in parameters if one.kind in _KEYWORDS}
        self._takes_all = any(one.kind == inspect.Parameter.VAR_KEYWORD for one in parameters)

    def run(self, case: Case, tensors: Mapping[str, Placed]) -> Ran | Missing | Broken:
        """Calls the function in this process; it may write to all memory of the tensors."""
        if self._operator and case.operator != self._operator:
            return Missing(reason=f"the target implements only {self._operator}")
        arrays = {name: placed.elements for name, placed in tensors.items()}
        given = {name: arrays[name] for name in case.inputs}
        keywords: dict[str, Any] = {"operator": case.operator, "profile": case.profile}
        keywords |= {**case.arguments, **given}
        if not self._takes_all:
            keywords = {name: value for name, value in keywords.items() if name in self._names}
        if "formats" in self._names:
            keywords["formats"] = {name: str(one.format) for name, one in case.tensors.items()}
        places = {name: arrays[name] for name in case.written if name in self._names}
        started = perf_counter()
        try:
            returned: object = self._function(**keywords, **places)
        except NotImplementedError as error:
            return Missing(reason=str(error) or "not implemented")
        except Exception as error:  # noqa: BLE001  a tested function may raise anything
            return Broken(reason=f"{type(error).__name__}: {error}{_place_of(error)}")
        seconds = perf_counter() - started
        try:
            outputs = {**places, **returned_outputs(case, returned)}
        except TypeError as error:
            return Broken(reason=f"the function returned no array: {error}")
        storages = {name: placed.storage for name, placed in tensors.items()}
        return Ran(outputs=outputs, storages=storages, seconds=seconds)


class FunctionTarget:
    """A function as a target; it receives copies of the inputs.

    Args:
        called: The function.
    """

    skips = staticmethod(without_codes)

    def __init__(self, called: Called) -> None:
        self._called = called

    async def run(self, case: Case, before: Arrays, *, read: Collection[str]) -> Outcome:
        """Calls the function in this process."""
        del read  # the result has all memory
        return self._called.run(case, placed_in(case, {n: one.copy() for n, one in before.items()}))

    def close(self) -> None:
        """Does nothing: the target has no resources."""


def check_module(path: str) -> None:
    """Checks that the module of "package.module:function" exists, without its import.

    Raises:
        InfrastructureError: There is no such module.
    """
    module, _, _ = path.partition(":")
    _add_working_directory()
    try:
        found = find_spec(module)
    except Exception as error:  # of a package that is imported to find its module
        raise _not_importable(path, error) from error
    if found is None:
        raise _no_module(path, module)


def function_at(path: str) -> Called:
    """Imports the function of "package.module:function", from the working directory too.

    A function with an operator's name runs only cases of that operator.

    Raises:
        InfrastructureError: There is no such module or function, or its import raises.
    """
    module, _, name = path.partition(":")
    _add_working_directory()
    try:
        imported = import_module(module)
    except Exception as error:  # a tested module may raise anything
        raise _not_importable(path, error) from error
    found: object = getattr(imported, name, None)
    if not callable(found):
        functions = [one for one, value in vars(imported).items() if callable(value)]
        near = similar_name(name, functions)
        meant = f"; did you mean {near}?" if near else ""
        raise InfrastructureError(
            closed(f"target {path}: the module {module} has no function {name}{meant}")
        )
    return Called(found, name if name in OPERATORS else "")


def _add_working_directory() -> None:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def _no_module(path: str, module: str) -> InfrastructureError:
    siblings = () if "." in module else (one.name for one in iter_modules([str(Path.cwd())]))
    near = similar_name(module, siblings)
    meant = f"; did you mean {near}?" if near else ""
    return InfrastructureError(
        closed(
            f"target {path}: neither the working directory nor the environment has a module "
            f"{module}{meant}"
        )
    )


def _not_importable(path: str, error: Exception) -> InfrastructureError:
    module, _, _ = path.partition(":")
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and f"{module}.".startswith(f"{missing}."):
        return _no_module(path, missing)
    remedy = f"; install {missing} in this environment." if missing else ""
    reason = f"the import of {module} raised {type(error).__name__}: {error}{remedy}"
    return InfrastructureError(f"target {path}: {reason}")


def _place_of(error: Exception) -> str:
    """Formats the last line outside installed packages in a traceback; "" without such a line."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    own = [one for one in frames if _LIBRARIES not in Path(one.filename).parts]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


def returned_outputs(case: Case, returned: object) -> dict[str, Array]:
    """Returns the outputs of the case from a function's return value, by name.

    Raises:
        TypeError: An output is no array.
    """
    if returned is None:
        return {}
    if isinstance(returned, Mapping):
        named = cast("Mapping[str, object]", returned)
    else:
        many = cast("tuple[object, ...]", returned) if isinstance(returned, tuple) else (returned,)
        names = case.written if len(many) == len(case.written) else case.output_names
        named = dict(zip(names, many, strict=False))
    return {
        name: as_array(value)
        for name, value in named.items()
        if name in case.written and value is not None
    }
