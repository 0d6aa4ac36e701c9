"""The TBE DSL's own spelling: modules named as the vendor's, whose two calls run in a session.

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
from opserve_client.tensors import Array

__all__ = ["Installation", "install"]

_TOP = "tbe"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Installation:
    """The modules that stand in sys.modules until uninstall(), or until its block ends.

    Attributes:
        modules: They, by name.
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
        """Takes the modules out of sys.modules; no error if they are out.

        Names that a program imported before stay bound, and go on to run in their session.
        """
        for name, module in self.modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def install(session: Runner, data: Mapping[str, Array]) -> Installation:
    """Puts tbe and its tvm, dsl, dsl.compute.cube_util and common.platform into sys.modules.

    Args:
        session: The session that the calls run in; a blocking one.
        data: What tvm.placeholder stands for, by the placeholder's name. Looked up when a
            placeholder is made, so entries may come later.

    Returns:
        What takes the modules out again: use it as a context manager, or call uninstall().

    Raises:
        AclrtError: 107000, nothing was changed: an asynchronous session, no mapping, a package tbe
            that is there, or modules of an earlier install().
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
    """Refuses to hide what somebody imported or could import."""
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
