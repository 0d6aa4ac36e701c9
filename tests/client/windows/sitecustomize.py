"""Windows as the modules of opserve see it; other modules see the system that runs the tests.

Python imports this at its start where the folder is in PYTHONPATH, in child processes, too.
"""

import fcntl
import os
import signal
import socket
import struct
import sys
from importlib import import_module
from multiprocessing import connection
from types import ModuleType
from typing import Any

from typing_extensions import override

frame = sys._getframe
HERE = os.path.dirname(__file__)  # noqa: PTH120  pathlib would load for every process
ABSENT_MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty", "uvloop")
ABSENT = """
    os.eventfd os.fchown os.fork os.forkpty os.geteuid os.getloadavg os.getpgid os.getuid os.killpg
    os.memfd_create os.mkfifo os.pidfd_open os.sched_getaffinity os.sendfile os.setsid os.statvfs
    os.sysconf os.wait3 os.wait4
    signal.SIGALRM signal.SIGCHLD signal.SIGCONT signal.SIGHUP signal.SIGKILL signal.SIGPIPE
    signal.SIGQUIT signal.SIGSTOP signal.SIGUSR1 signal.SIGUSR2 signal.alarm signal.pause
    signal.pthread_kill signal.pthread_sigmask signal.setitimer signal.sigwait
    socket.AF_UNIX socket.SCM_RIGHTS socket.SOCK_SEQPACKET socket.SO_PEERCRED socket.recv_fds
    socket.send_fds
"""


class SeenModule(ModuleType):
    """A module whose attributes depend on the module that reads them."""

    @override
    def __getattribute__(self, name: str) -> Any:
        value = ModuleType.__getattribute__(self, name)
        if not frame(1).f_globals.get("__name__", "").startswith("opserve"):
            return value
        place = f"{ModuleType.__getattribute__(self, '__name__')}.{name}"
        if place in ABSENT.split():
            raise AttributeError(f"{place}: Windows has none")
        return "win32" if place == "sys.platform" else value


def locking(fd: int, mode: int, size_bytes: int) -> None:
    """As msvcrt's: at once or not at all, against every other handle, from the current place."""
    assert mode == fcntl.LOCK_NB
    lock = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_CUR, 0, size_bytes, 0)
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, lock)


msvcrt: Any = ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.locking = fcntl.LOCK_NB, locking
import_module("subprocess")  # first: it chooses its system by whether there is an msvcrt
sys.modules["msvcrt"] = msvcrt
connection.PipeConnection = connection.Connection  # type: ignore[attr-defined]  # of Windows
os.environ["PATH"] = f"{HERE}{os.pathsep}{os.environ['PATH']}"  # has taskkill
for absent in ABSENT_MODULES:
    sys.modules[absent] = None  # type: ignore[assignment]  # makes an import fail
for shown in (os, signal, socket, sys):
    shown.__class__ = SeenModule
