"""Modules with the names of the TBE DSL, whose two calls run in a session.

Inside `with install(session, data):` a program imports tvm and dsl from tbe, as on a device.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Self

from opserve_client.errors import OpserveError, invalid_parameter
from opserve_client.tbe.dsl import Dsl, Runner
from opserve_client.tbe.modules import VendorModule, make_modules
from opserve_client.tbe.tensors import Placeholders
from opserve_kernels.array_like import ArrayLike

__all__ = ["Installation", "install"]

_TOP = "tbe"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Installation:
    """Installed modules; they are in sys.modules until uninstall() or the end of the block.

    Attributes:
        modules: The modules by name.
    """

    modules: Mapping[str, VendorModule]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.uninstall()

    def uninstall(self) -> None:
        """Removes the modules from sys.modules; a second call does nothing.

        Names that a program has imported stay bound, and their calls still run in the session.
        """
        for name, module in self.modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def install(session: Runner, data: Mapping[str, ArrayLike]) -> Installation:
    """Puts tbe and its tvm, dsl, dsl.compute.cube_util and common.platform into sys.modules.

    Args:
        session: Blocking session for the calls.
        data: Elements of the placeholders, by the placeholder's name. tvm.placeholder looks a name
            up when it is called, so entries may be added later.

    Returns:
        The installation: use it as a context manager, or call uninstall().

    Raises:
        AclrtError: 107000, the session is asynchronous, the data is no mapping, a package tbe is
            installed, or an earlier install() is active. Nothing is changed.
    """
    _check_session(session)
    _check_data(data)
    _check_nothing_there()
    modules = make_modules(
        {
            "tbe.tvm": {"placeholder": Placeholders(data=data).placeholder},
            "tbe.dsl": Dsl(session=session).calls(),
        }
    )
    sys.modules.update(modules)
    return Installation(modules=modules)


def _check_session(session: object) -> None:
    run = getattr(session, "run", None)
    if not callable(run) or iscoroutinefunction(run):
        raise invalid_parameter("session", type(session).__name__, "a blocking Session")


def _check_data(data: object) -> None:
    if not isinstance(data, Mapping):
        allowed = "a mapping from names of placeholders to NumPy arrays"
        raise invalid_parameter("data", type(data).__name__, allowed)


def _check_nothing_there() -> None:
    """Rejects an installation that would hide a module that is imported or installed."""
    if isinstance(sys.modules.get(_TOP), VendorModule):
        raise invalid_parameter(_TOP, "an earlier install()", "one at a time: uninstall() it first")
    loaded = [name for name in sys.modules if name.partition(".")[0] == _TOP]
    if loaded:
        raise _is_there(f"a module {loaded[0]} that is loaded")
    spec = find_spec(_TOP)
    if spec is not None:
        raise _is_there(f"a package of that name in {spec.origin or 'a folder on sys.path'}")


def _is_there(given: str) -> OpserveError:
    return invalid_parameter(_TOP, given, "none: install() would hide it")
