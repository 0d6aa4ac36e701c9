"""Build of the C library: headers, one shared library with the vendor's linker names, settings."""

import os
import shlex
import shutil
import subprocess
import tempfile
from importlib.resources import as_file, files
from pathlib import Path

from opserve_client.abi import operator_functions

LIBRARY = "libopserve_abi.so"
LINKER_NAMES = (
    *("libascendcl.so", "libacl_rt.so", "libnnopbase.so", "libopapi.so", "libopapi_nn.so"),
    *("libopapi_math.so", "libopapi_cv.so", "libcust_opapi.so"),
)
"""Names by which the vendor's programs link the library."""
ENVIRONMENT = "env.sh"
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-Wall")
# A program that loads the library by dlopen may close it, but a thread of it may run.
_LINKER_FLAGS = (f"-Wl,-soname,{LIBRARY}", "-Wl,-z,nodelete", "-Wl,--no-undefined")
_TLS_FLAGS = ("-DOPSERVE_TLS", "-lssl", "-lcrypto")
_ENVIRONMENT = """\
# Settings of programs that are built and run with this library
export OPSERVE_ADDRESS="${{OPSERVE_ADDRESS:-http://127.0.0.1:8080}}"  # the service's HTTP address
export OPSERVE_API_KEY="${{OPSERVE_API_KEY:-}}"
export OPSERVE_ABI_DEVICES="${{OPSERVE_ABI_DEVICES:-ascend910b}}"  # profiles, by device number
export ASCEND_HOME_PATH={folder} ASCEND_TOOLKIT_HOME={folder}
export CPATH={folder}/include:{folder}/include/aclnnop"${{CPATH:+:$CPATH}}"
export LIBRARY_PATH={folder}/lib"${{LIBRARY_PATH:+:$LIBRARY_PATH}}"
export LD_LIBRARY_PATH={folder}/lib"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
"""


def build(folder: Path, *, compiler: str, flags: tuple[str, ...] = ()) -> bool:
    """Builds the library into a folder, and returns whether it has TLS.

    Args:
        folder: Gets include/, lib/, lib64 and env.sh; earlier ones are replaced.
        compiler: A C++17 compiler: its command.
        flags: Further options of the compiler.

    Raises:
        OSError: The compiler is missing or fails, or the folder cannot be written.
    """
    command = compiler.split()
    if not command or shutil.which(command[0]) is None:
        raise OSError(
            f"the C++ compiler {compiler} is missing: install one (Debian: apt-get install g++), "
            "or name another with --compiler"
        )
    include, library = folder.resolve() / "include", folder.resolve() / "lib"
    with as_file(files("opserve_client.abi")) as package:
        shutil.copytree(package / "include", include, dirs_exist_ok=True)
        (include / "aclnnop").mkdir(exist_ok=True)
        for name, text in operator_functions.headers().items():
            (include / "aclnnop" / name).write_text(text)
        library.mkdir(exist_ok=True)
        tls = () if not _has_openssl(command) else _TLS_FLAGS
        _compile(command, package / "src", include, library / LIBRARY, (*flags, *tls))
    for name in LINKER_NAMES:
        _link(library / name, LIBRARY)
    _link(folder / "lib64", "lib")
    quoted = shlex.quote(str(folder.resolve()))  # a shell reads it
    (folder / ENVIRONMENT).write_text(_ENVIRONMENT.format(folder=quoted))
    return bool(tls)


def _compile(
    command: list[str], sources: Path, include: Path, output: Path, flags: tuple[str, ...]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        generated = Path(folder) / "operator_functions.cpp"
        generated.write_text(operator_functions.source())
        written = sorted(sources.glob("*.cpp"))
        made = Path(folder) / LIBRARY
        includes = (f"-I{include}", f"-I{sources}")
        done = subprocess.run(  # noqa: S603  # the user's compiler
            [*command, *_FLAGS, *includes, *written, generated, *_LINKER_FLAGS, "-o", made, *flags],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise OSError(f"{command[0]} fails: {done.stderr.strip()}")
        shutil.copy(made, output.with_suffix(".new"))
    output.with_suffix(".new").replace(output)  # programs that run keep the old one


def _has_openssl(command: list[str]) -> bool:
    """Returns whether the compiler finds OpenSSL's headers and libraries."""
    program = (
        "#include <openssl/ssl.h>\nint main() { return SSL_CTX_new(TLS_client_method()) == 0; }"
    )
    done = subprocess.run(  # noqa: S603  # the user's compiler
        [*command, "-x", "c++", "-", "-lssl", "-lcrypto", "-o", os.devnull],
        input=program,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0


def _link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)
