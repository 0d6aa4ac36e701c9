"""Libraries with the vendor's C interface as targets: "aclnn:LIBDIR", by ctypes.

They are loaded into the process that runs a trial, which a crash ends, and into one that names
them. On a machine with an NPU they are the vendor's; those of `opserve abi build` call a service.
"""

import ctypes
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from ctypes import byref, c_bool, c_char_p, c_int, c_int8, c_int32, c_int64, c_uint64, c_void_p
from hashlib import file_digest
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from opserve_client.abi.operator_functions import Function, Parameter, functions
from opserve_client.conform.targets.target import InfrastructureError
from opserve_kernels.cases.case import Case
from opserve_kernels.cases.fill import Array
from opserve_kernels.cases.refusals.changes import source_of
from opserve_kernels.cases.registry import cases_of
from opserve_kernels.conformance.target import Broken, Missing, Outcome, Ran, Refused
from opserve_kernels.errors import InvalidArgument
from opserve_kernels.profiles import profile_named
from opserve_kernels.status import Status
from opserve_kernels.verdict.judge_case import Arrays
from opserve_kernels.verdict.verdict import Code

RUNTIMES = ("libascendcl.so", "libacl_rt.so")
OPERATORS = "lib*opapi*.so"
_DRIVER = Path("/usr/local/Ascend/driver/version.info")
_PACKAGES = ("share/info/*/version.info", "*/version.info")
"""The toolkit's packages, beside LIBDIR: as today's installers place them, and as older ones do."""
_NUMBERS: Mapping[str, Any] = {"int": c_int, "int8_t": c_int8, "int64_t": c_int64, "bool": c_bool}
_TO_DEVICE, _FROM_DEVICE = 1, 2
_DIGITS = 12
_PAGE = ("page", "contradicted")
"""Origins of rules that a library does not report when it accepts a call."""


class _Failed(Exception):
    """A function of the library returned a code that is no answer to the call."""


class AclnnTarget:
    """Device 0 of the libraries in a folder.

    Args:
        folder: The folder.

    Raises:
        InfrastructureError: There is no such library, or its device cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        self._libraries = [_loaded(path) for path in paths_in(folder)]
        self._calls = {function.operator: function for function in functions()}
        for name, argument in (("aclInit", None), ("aclrtSetDevice", c_int32(0))):
            code = self._function(name)(argument)
            if code != 0:
                raise InfrastructureError(f"{name}: {code}: {self._message()}")
        self.soc = _text(self._function("aclrtGetSocName", c_char_p)())
        try:
            self._profile = profile_named(self.soc).name
        except InvalidArgument as error:
            raise InfrastructureError(f"device {self.soc}: {error}") from error

    def skips(self, case: Case) -> str:
        """Returns the reason why the libraries cannot be judged by a case, or ""."""
        if case.operator not in self._calls:
            return "the operator has no C function"
        rows = [rule for rule in cases_of(case.operator).rules if source_of(rule) == case.source]
        if case.is_refused and any(rule.origin.value in _PAGE for rule in rows):
            return "the target reports no rule that only the page states"
        numbers = (one.field for one in self._calls[case.operator].parameters if one.is_number)
        missing = [name for name in numbers if name not in case.arguments]
        return f"C has no call without {missing[0]}" if missing else ""

    async def run(self, case: Case, before: Arrays, *, read: Collection[str]) -> Outcome:
        """Makes the call in this process."""
        if case.profile != self._profile:
            return Missing(reason=f"the device is {self.soc}, of the profile {self._profile}")
        function = self._calls[case.operator]
        for name in (f"{function.call}GetWorkspaceSize", function.call):
            if not self._has(name):
                return Missing(reason=f"the libraries have no function {name}")
        try:
            with ExitStack() as stack:
                return self._run(case, function, before, read, stack)
        except _Failed as failure:
            return Broken(reason=str(failure))

    def close(self) -> None:
        """Ends the use of the device."""
        self._function("aclrtResetDevice")(c_int32(0))
        self._function("aclFinalize")()

    def _run(
        self,
        case: Case,
        function: Function,
        before: Mapping[str, Array],
        read: Collection[str],
        stack: ExitStack,
    ) -> Outcome:
        memory = {name: self._uploaded(storage, stack) for name, storage in before.items()}
        arguments = [self._argument(one, case, memory, stack) for one in function.parameters]
        size, executor = c_uint64(), c_void_p()
        started = perf_counter()
        first = self._function(f"{function.call}GetWorkspaceSize")
        code = first(*arguments, byref(size), byref(executor))
        if code != 0:
            names = {int(status): status.name for status in Status}
            return Refused(code=Code(number=code, name=names.get(code)), reason=self._message())
        if case.is_refused:
            return Ran(outputs={})
        workspace = stack.enter_context(self._memory(size.value)) if size.value else None
        self._do(function.call, c_void_p(workspace), size, executor, None)
        self._do("aclrtSynchronizeStream", None)
        seconds = perf_counter() - started
        found = {name: self._downloaded(memory[name], before[name]) for name in read}
        return Ran(storages=found, seconds=seconds)

    def _argument(
        self, parameter: Parameter, case: Case, memory: Mapping[str, int], stack: ExitStack
    ) -> Any:  # noqa: ANN401  a value of ctypes
        """An argument of phase one; a missing one is a null pointer."""
        name, kind = parameter.field, parameter.c_type
        if kind.endswith("aclTensor*"):
            return self._tensor(name, case, memory, stack)
        value: Any = case.arguments.get(name)
        if parameter.is_number:
            return _NUMBERS[kind](value)
        if value is None:
            return None
        kind = kind.removeprefix("const acl").removesuffix("*")
        entries = ((c_bool if kind == "BoolArray" else c_int64) * len(value))(*value)
        return self._object(kind, stack, entries, c_uint64(len(value)))

    def _tensor(
        self, name: str, case: Case, memory: Mapping[str, int], stack: ExitStack
    ) -> c_void_p | None:
        given = case.tensors.get(name)
        if given is None:
            return None
        tensor = given.tensor()
        storage = tensor.storage_shape
        if storage is None:
            storage = given.shape if tensor.is_contiguous else (given.storage_elements,)
        shape, sizes = _row(given.shape), _row(storage)
        strides = None if given.strides is None else _row(given.strides)
        return self._object(
            "Tensor",
            stack,
            *(shape, c_uint64(len(shape)), c_int(given.dtype.acl_number), strides),
            *(c_int64(given.offset), c_int(given.format.acl_number), sizes),
            *(c_uint64(len(sizes)), c_void_p(memory.get(name))),
        )

    def _object(self, kind: str, stack: ExitStack, *values: object) -> c_void_p:
        made = c_void_p(self._function(f"aclCreate{kind}", c_void_p)(*values))
        stack.callback(self._function(f"aclDestroy{kind}"), made)
        return made

    def _uploaded(self, storage: Array, stack: ExitStack) -> int:
        address = stack.enter_context(self._memory(max(1, storage.nbytes)))
        size = c_uint64(storage.nbytes)
        source = c_void_p(np.ascontiguousarray(storage).ctypes.data)
        self._do("aclrtMemcpy", c_void_p(address), size, source, size, _TO_DEVICE)
        return address

    def _downloaded(self, address: int, like: Array) -> Array:
        found = np.empty_like(like)
        size = c_uint64(found.nbytes)
        target = c_void_p(found.ctypes.data)
        self._do("aclrtMemcpy", target, size, c_void_p(address), size, _FROM_DEVICE)
        return found

    @contextmanager
    def _memory(self, size: int) -> Generator[int]:
        address = c_void_p()
        self._do("aclrtMalloc", byref(address), c_uint64(size), 0)
        try:
            yield address.value or 0
        finally:
            self._function("aclrtFree")(address)

    def _do(self, name: str, *arguments: object) -> None:
        code = self._function(name)(*arguments)
        if code != 0:
            raise _Failed(f"{name} returned {code}: {self._message()}")

    def _message(self) -> str:
        return _text(self._function("aclGetRecentErrMsg", c_char_p)())

    def _has(self, name: str) -> bool:
        return any(hasattr(library, name) for library in self._libraries)

    def _function(self, name: str, result: Any = c_int) -> Callable[..., Any]:  # noqa: ANN401
        for library in self._libraries:
            if hasattr(library, name):
                found = library[name]
                found.restype = result
                return found
        raise _Failed(f"the libraries have no function {name}")


def device_of(folder: Path) -> str:
    """Returns the device and the versions of its driver and libraries, from another process.

    Raises:
        InfrastructureError: There is no such library, or its device cannot be opened.
    """
    digests = [f"{path.name} sha256:{_digest(path)}" for path in paths_in(folder)]
    done = subprocess.run(  # noqa: S603  this module
        [sys.executable, "-m", __name__, str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = done.stderr.strip() or f"a process that opened it ended with {done.returncode}"
        raise InfrastructureError(f"aclnn:{folder}: {reason}")
    driver = [f"driver {version}" for version in _versions([_DRIVER])]
    packages = [path for pattern in _PACKAGES for path in folder.absolute().parent.glob(pattern)]
    toolkit = [f"CANN {version}" for version in _versions(packages)]
    return ", ".join([done.stdout.strip(), *driver, *toolkit, *digests])


def paths_in(folder: Path) -> list[Path]:
    """Returns the files of the runtime and of the operators in a folder, each once.

    Raises:
        InfrastructureError: One of them is missing.
    """
    runtimes = [folder / name for name in RUNTIMES if (folder / name).exists()][:1]
    operators = sorted(folder.glob(OPERATORS))
    if not runtimes or not operators:
        raise InfrastructureError(f"aclnn:{folder}: no libascendcl.so, or no {OPERATORS}")
    return list(dict.fromkeys(path.resolve() for path in (*runtimes, *operators)))


def _loaded(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise InfrastructureError(str(error)) from error


def _versions(files: Collection[Path]) -> list[str]:
    """Returns the versions in files of the vendor's, each once; not every user may read them."""
    found: set[str] = set()
    for path in files:
        with suppress(OSError):
            found.update(
                re.findall(r"^Version=(\S+)", path.read_text(errors="replace"), re.MULTILINE)
            )
    return sorted(found)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()[:_DIGITS]


def _row(values: Collection[int]) -> Any:  # noqa: ANN401  an array of ctypes
    return (c_int64 * len(values))(*values)


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")


if __name__ == "__main__":
    try:
        target = AclnnTarget(Path(sys.argv[1]))
    except (InfrastructureError, _Failed) as error:
        sys.exit(str(error))
    sys.stdout.write(target.soc)
    target.close()
