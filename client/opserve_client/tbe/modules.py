"""Modules with the vendor's names; names that opserve does not support raise an explanation."""

from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from typing_extensions import override

from opserve_kernels.formats import BLOCK
from opserve_kernels.tensor import SPELLED

_NAMES = (
    *("tbe", "tbe.tvm", "tbe.dsl", "tbe.dsl.compute", "tbe.dsl.compute.cube_util"),
    *("tbe.common", "tbe.common.platform"),
)
"""Every module, parents first."""
C0_SIZE = BLOCK
CUBE_MKN = {name: {"mac": [BLOCK] * 3} for name in SPELLED}  # as in storage; A2 has 8 for float32
"""Rows, depth and columns of one product of the cube unit, by dtype; group_dict depends on them."""


class VendorModule(ModuleType):
    """A replacement for a module of the vendor."""

    def __init__(self, name: str, members: Mapping[str, object]) -> None:
        super().__init__(name, "Replacement for the vendor's module: see opserve_client.tbe.")
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__path__ = []
        vars(self).update(members)

    @override
    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{self.__name__}.{name}: opserve has tvm.placeholder, dsl.conv2d_backprop_input and "
            "dsl.conv2d_backprop_filter, which do not mix with other calls of the TBE DSL",
            name=name,
            obj=self,
        )


def make_modules(
    functions: Mapping[str, Mapping[str, Callable[..., Any]]],
) -> dict[str, VendorModule]:
    """Returns the modules by name, each an attribute of its parent.

    Args:
        functions: Functions of a module, by the module's name.
    """
    constants = {"tbe.common.platform": {"C0_SIZE": C0_SIZE, "CUBE_MKN": CUBE_MKN}}
    members: dict[str, Mapping[str, object]] = {**constants, **functions}
    modules = {name: VendorModule(name, members.get(name, {})) for name in _NAMES}
    for name, module in modules.items():
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(modules[parent], last, module)
    return modules
